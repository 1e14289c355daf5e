//===- GradientToleranceTest.cpp - What passes as the same gradient -------===//
#include "tools/driver/verify/GradientTolerance.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <limits>

namespace cleave {

using at::Tensor;

static Tensor tensor(std::vector<double> numbers, at::ScalarType dtype = at::kFloat) {
  return at::tensor(numbers, at::kDouble).to(dtype);
}

TEST(GradientTolerance, AllowsWhatRoundingDoes) {
  const Tensor expected = tensor({1, 1e-3, 0});
  EXPECT_TRUE(compareGradient(expected + 5e-6, expected, 1).ok);
  EXPECT_FALSE(compareGradient(expected + 2e-5, expected, 1).ok);
  // Of a model whose other gradients are larger.
  EXPECT_TRUE(compareGradient(expected + 2e-5, expected, 100).ok);
  EXPECT_FALSE(compareGradient(expected * 1.01, expected, 100).ok);
  EXPECT_TRUE(compareGradient(expected + 2e-5, expected, 1, /*rounding=*/1e-4).ok);
}

TEST(GradientTolerance, NoGradientIsZeros) {
  const Tensor zeros = at::zeros({2}), some = tensor({0, 1});
  EXPECT_TRUE(compareGradient(zeros, {}, 1).ok);
  EXPECT_TRUE(compareGradient({}, zeros, 1).ok);
  EXPECT_FALSE(compareGradient({}, some, 1).ok);
  EXPECT_FALSE(compareGradient(some, {}, 1).ok);
}

TEST(GradientTolerance, RefusesOtherShapesAndDTypes) {
  const Tensor expected = tensor({1, 2});
  EXPECT_FALSE(compareGradient(tensor({1, 2, 3}), expected, 1).ok);
  EXPECT_FALSE(compareGradient(expected.to(at::kBFloat16), expected, 1).ok);
}

TEST(GradientTolerance, InfinitiesStandInTheSamePlaces) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor expected = tensor({1, infinity, nan});
  EXPECT_TRUE(compareGradient(expected.clone(), expected, 1).ok);
  EXPECT_FALSE(compareGradient(tensor({1, infinity, 0}), expected, 1).ok);
  EXPECT_FALSE(compareGradient(tensor({1, -infinity, nan}), expected, 1).ok);
  EXPECT_FALSE(compareGradient(tensor({nan, infinity, nan}), expected, 1).ok);
}

TEST(GradientTolerance, ComparesWithFloat64WhereFloat32IsOff) {
  const Tensor exact = tensor({1}, at::kDouble), expected = tensor({1 + 1e-3}), close = tensor({1 - 2e-3}),
               far = tensor({1 - 5e-3});
  for (const Tensor &found : {close, far}) {
    auto compared = compareGradient(found, expected, 1);
    EXPECT_FALSE(compared.ok);
    compareWithFloat64(compared, found, expected, exact);
    EXPECT_EQ(compared.ok, found.is_same(close));
    EXPECT_EQ(compared.isAgainstFloat64, compared.ok);
  }
  auto compared = compareGradient(tensor({std::nan("")}), expected, 1);
  compareWithFloat64(compared, tensor({std::nan("")}), expected, exact);
  EXPECT_FALSE(compared.ok);
}

TEST(GradientTolerance, AnotherBranchInFloat64ExcusesNothing) {
  // The original itself is off by 5 % there.
  const Tensor exact = tensor({1}, at::kDouble), expected = tensor({1.05}), found = tensor({0.95});
  auto compared = compareGradient(found, expected, 1);
  compareWithFloat64(compared, found, expected, exact);
  EXPECT_FALSE(compared.ok);
  // Nor where the original has no gradient.
  compared = compareGradient(found, {}, 1);
  compareWithFloat64(compared, found, {}, exact);
  EXPECT_FALSE(compared.ok);
}

TEST(GradientTolerance, ElementsWhoseGradientIsNearlyZeroMayMoveTheOtherWay) {
  WeightSteps steps{/*isAdam=*/true, {1e-3, 1e-3}, /*gradientError=*/1e-5, tensor({1, 1e-7})};
  const Tensor expected = tensor({0.1, 0.1});
  EXPECT_TRUE(compareWeight(expected + tensor({0, 2e-3}), expected, steps).ok);
  EXPECT_FALSE(compareWeight(expected + tensor({0, 1e-2}), expected, steps).ok);
  EXPECT_FALSE(compareWeight(expected + tensor({1e-6, 0}), expected, steps).ok);
  EXPECT_TRUE(compareWeight(expected + tensor({5e-8, 0}), expected, steps).ok);
  // SGD takes no sign.
  steps.isAdam = false;
  EXPECT_FALSE(compareWeight(expected + tensor({0, 2e-3}), expected, steps).ok);
}

} // namespace cleave
