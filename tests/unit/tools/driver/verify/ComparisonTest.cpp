//===- ComparisonTest.cpp - What passes as the same tensor ----------------===//
#include "tools/driver/verify/Comparison.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cleave {

static constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The same numbers in every run.
static at::Tensor numbers(int64_t count, double scale = 1) {
  return at::randn({count}, at::make_generator<at::CPUGeneratorImpl>(uint64_t{1}), at::kFloat) * scale;
}

TEST(Comparison, ComputesInFloat32WhereNoWeightIsWider) {
  plan::Plan plan;
  auto add = [&](plan::DType dtype, bool isNumber = false) {
    plan.weights.push_back(std::make_unique<plan::Weight>());
    plan.weights.back()->dtype = dtype;
    plan.weights.back()->wrapped_number = isNumber;
  };
  EXPECT_EQ(computeDTypeOf(plan), std::nullopt);
  add(plan::DType::Float);
  add(plan::DType::Double, /*isNumber=*/true);
  EXPECT_EQ(computeDTypeOf(plan), at::kFloat);
  add(plan::DType::Double);
  EXPECT_EQ(computeDTypeOf(plan), std::nullopt);
  plan.precision = plan::DType::BFloat16;
  EXPECT_EQ(computeDTypeOf(plan), at::kBFloat16);
}

TEST(Comparison, AllowsWhatRoundingDoes) {
  at::Tensor expected = numbers(1000);
  EXPECT_TRUE(compare(expected + 5e-6, expected).isSame);
  EXPECT_FALSE(compare(expected + 1e-3, expected).isSame);
  // As ResNet-50 answers on one thread and on two.
  at::Tensor logits = numbers(2000, 3);
  EXPECT_TRUE(compare(logits + 1.5e-5, logits).isSame);
  EXPECT_TRUE(compare(logits * 100 + 1e-3, logits * 100).isSame);
  EXPECT_FALSE(compare(logits * 100 + 2e-2, logits * 100).isSame);
}

TEST(Comparison, SeesWrongTinyTensors) {
  at::Tensor expected = numbers(1000, 1e-7);
  EXPECT_FALSE(compare(at::zeros_like(expected), expected).isSame);
  EXPECT_FALSE(compare(-expected, expected).isSame);
  EXPECT_TRUE(compare(expected * (1 + 1e-5), expected).isSame);
  for (auto dtype : {at::kHalf, at::kBFloat16}) {
    at::Tensor narrow = numbers(1000, 1e-3).to(dtype);
    EXPECT_FALSE(compare(at::zeros_like(narrow), narrow).isSame);
  }
}

TEST(Comparison, SeesWrongElementsBesideMasks) {
  for (double mask : {-1e4, -1e9, -3.4028234663852886e38})
    for (int64_t masked : {1, 500, 990}) {
      at::Tensor expected = numbers(1000);
      expected.slice(0, 0, masked).fill_(mask);
      EXPECT_TRUE(compare(expected.clone(), expected).isSame);
      at::Tensor found = expected.clone();
      found[995] += 0.01;
      EXPECT_FALSE(compare(found, expected).isSame) << mask << " " << masked;
      EXPECT_DOUBLE_EQ(compare(expected, expected).maxAbsError, 0);
      // A mask that is gone, and one that is another.
      found = expected.clone();
      found[0] = 0;
      EXPECT_FALSE(compare(found, expected).isSame);
      found[0] = mask / 2;
      EXPECT_FALSE(compare(found, expected).isSame);
    }
}

TEST(Comparison, SeesWrongElementsBesideOutliers) {
  // No gap to tell a mask by: every decade up to 1e18.
  at::Tensor expected = at::pow(10, at::arange(-1, 18, 0.01, at::kDouble)).to(at::kFloat);
  at::Tensor found = expected.clone();
  EXPECT_TRUE(compare(found, expected).isSame);
  found[0] += 1e9;
  EXPECT_FALSE(compare(found, expected).isSame);
}

TEST(Comparison, AllowsRoundedProducts) {
  at::Tensor expected = numbers(1000), found = expected + 1e-2;
  EXPECT_FALSE(compare(found, expected).isSame);
  EXPECT_TRUE(compare(found, expected, at::kBFloat16).isSame);
  EXPECT_FALSE(compare(expected + 0.3, expected, at::kBFloat16).isSame);
  // Integers are counted, not rounded.
  at::Tensor counts = at::arange(1000);
  EXPECT_FALSE(compare(counts + 1, counts, at::kBFloat16).isSame);
}

TEST(Comparison, LeavesOneOfTwoLargeNumbersItsRounding) {
  at::Tensor expected = at::tensor({110.0f, 0.001f});
  EXPECT_TRUE(compare(expected + 1e-4, expected).isSame);
}

TEST(Comparison, KeepsNaNsAndInfinitiesInTheirPlaces) {
  at::Tensor expected = at::tensor({1.0f, NAN, kInfinity, -kInfinity});
  EXPECT_TRUE(compare(expected.clone(), expected).isSame);
  for (int64_t i = 0; i < 4; ++i)
    for (float other : {2.0f, NAN, kInfinity, -kInfinity}) {
      at::Tensor found = expected.clone();
      found[i] = other;
      EXPECT_EQ(compare(found, expected).isSame, at::equal(found.nan_to_num(7), expected.nan_to_num(7))) << i;
    }
}

TEST(Comparison, WantsIntegersAndTypesToBeEqual) {
  at::Tensor large = at::tensor({int64_t(1) << 60});
  EXPECT_FALSE(compare(large + 1, large).isSame);
  EXPECT_FALSE(compare(large.to(at::kInt), large).isSame);
  EXPECT_FALSE(compare(large.unsqueeze(0), large).isSame);
  EXPECT_TRUE(compare(at::empty({0}), at::empty({0})).isSame);
  EXPECT_TRUE(compare(at::zeros({3}), at::zeros({3})).isSame);
}

// Kernels may take such numbers for 0.
TEST(Comparison, AllowsWhatIsBelowTheLeastNormalNumber) {
  at::Tensor denormal = at::tensor({3e-41f, 1e-43f});
  EXPECT_TRUE(compare(at::zeros({2}), denormal).isSame);
  EXPECT_FALSE(compare(at::zeros({2}), at::tensor({3e-37f, 1e-43f})).isSame);
  EXPECT_FALSE(compare(at::zeros({2}, at::kDouble), denormal.to(at::kDouble)).isSame);
}

TEST(Comparison, ReportsTheElementBeyondItsLimit) {
  at::Tensor expected = at::tensor({1.0f, 2.0f, 1e9f}), found = at::tensor({1.0f, 2.5f, 1e9f + 64});
  Comparison comparison = compare(found, expected);
  EXPECT_EQ(comparison.error, 0.5);
  EXPECT_LT(comparison.allowed, 1e-4);
  EXPECT_EQ(comparison.maxAbsError, 64);
  // What is left without the mask.
  EXPECT_EQ(typicalMagnitude(expected), 2);
}

} // namespace cleave
