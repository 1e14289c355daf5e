//===- ProjectionTest.cpp - Large outputs beside the module's -------------===//
#include "tools/driver/witnesses/Projection.h"
#include "tools/driver/witnesses/WitnessComparison.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <limits>

namespace cleave {

using testing::DoubleNear;
using testing::ElementsAre;

static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

static at::Tensor numbers(at::IntArrayRef shape) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(uint64_t{1}), at::kFloat);
}

/// A tensor with `value` at `index` of its flattened elements, else 0.
static at::Tensor oneElement(at::IntArrayRef shape, int64_t index, const at::Scalar &value,
                             at::ScalarType dtype) {
  at::Tensor tensor = at::zeros(shape, dtype);
  tensor.view({-1})[index].fill_(value);
  return tensor;
}

/// As cleave-trace would store it.
static WitnessedOutput stored(const at::Tensor &tensor) {
  WitnessedOutput output;
  const Projection own = project(tensor);
  output.shape = own.shape;
  output.sums = own.sums;
  output.samples = own.samples;
  output.nonfinite = own.nonfinite;
  output.largest = *std::max_element(own.largest.begin(), own.largest.end());
  return output;
}

TEST(Projection, HashesAsTheReferenceDoes) {
  // Sebastiano Vigna's splitmix64.c, seeded with 0 and 1.
  EXPECT_EQ(splitmix64(0), 0xE220A8397B1DCDAFu);
  EXPECT_EQ(splitmix64(1), 0x910A2DEC89025CC1u);
}

TEST(Projection, KeepsLeadingDimensions) {
  EXPECT_EQ(leadingDimensions({4, 128, 50257}), 2u);
  EXPECT_EQ(leadingDimensions({4096, 2}), 1u);
  EXPECT_EQ(leadingDimensions({4097}), 0u);
  EXPECT_EQ(leadingDimensions({2, 4096, 1}), 1u);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(leadingDimensions({4096, huge, huge}), 1u);
}

TEST(Projection, AddsWithTheSignsOfTheHash) {
  // Positions 0 and 1 hash to odd numbers, 2 to an even one.
  ASSERT_EQ(splitmix64(2) % 2, 0u);
  const double root = std::sqrt(4097.0);
  EXPECT_THAT(project(oneElement({4097}, 0, 3, at::kFloat)).sums, ElementsAre(DoubleNear(-3 / root, 1e-15)));
  EXPECT_THAT(project(oneElement({4097}, 2, 3, at::kFloat)).sums, ElementsAre(DoubleNear(3 / root, 1e-15)));
  // Positions count from the beginning of a block.
  EXPECT_THAT(project(oneElement({2, 4097}, 4097 + 2, 3, at::kInt)).sums,
              ElementsAre(0, DoubleNear(3 / root, 1e-15)));
  EXPECT_THAT(project(oneElement({4097}, 1, true, at::kBool)).sums,
              ElementsAre(DoubleNear(-1 / root, 1e-15)));
}

TEST(Projection, TakesComplexNumbersAsPairs) {
  const Projection found = project(oneElement({2049}, 0, c10::complex<double>(0, 2), at::kComplexDouble));
  EXPECT_THAT(found.shape, ElementsAre(2049, 2));
  EXPECT_EQ(found.blockSize, 2);
  EXPECT_DOUBLE_EQ(found.sums[0], -2 / std::sqrt(2.0));
  EXPECT_EQ(found.largest[0], 2);
}

TEST(Projection, LeavesOutWhatIsNotFinite) {
  at::Tensor tensor = at::ones({2, 4097});
  tensor[1][2] = std::numeric_limits<float>::quiet_NaN();
  tensor[1][5] = -std::numeric_limits<float>::infinity();
  const Projection whole = project(at::ones({2, 4097})), found = project(tensor);
  EXPECT_THAT(found.nonfinite, ElementsAre(0, 2));
  EXPECT_DOUBLE_EQ(found.sums[0], whole.sums[0]);
  const double sign = splitmix64(5) % 2 == 0 ? 1 : -1;
  EXPECT_NEAR(found.sums[1], whole.sums[1] - (1 + sign) / std::sqrt(4097.0), 1e-12);
  EXPECT_EQ(found.largest[1], 1);
}

TEST(Projection, ReadsViews) {
  const at::Tensor tensor = numbers({128, 64});
  EXPECT_EQ(project(tensor.t()).sums, project(tensor.t().contiguous()).sums);
}

TEST(WitnessComparison, AllowsWhatRoundingDoes) {
  const at::Tensor expected = numbers({4, 5000});
  EXPECT_TRUE(compareWithWitness(expected + 5e-6, stored(expected)).ok);
  EXPECT_TRUE(compareWithWitness(expected * (1 + 1e-6), stored(expected)).ok);
  EXPECT_FALSE(compareWithWitness(expected + 1e-3, stored(expected)).ok);
  EXPECT_TRUE(compareWithWitness(expected + 1e-3, stored(expected), at::kBFloat16).ok);
  const at::Tensor narrow = expected.to(at::kBFloat16);
  EXPECT_TRUE(compareWithWitness(narrow * (1 + 1e-2), stored(narrow)).ok);
}

TEST(WitnessComparison, SeesOneWrongElement) {
  const at::Tensor expected = numbers({4, 5000});
  at::Tensor found = expected.clone();
  found[2][77] += 0.1;
  const VerifyReport::Compared compared = compareWithWitness(found, stored(expected));
  EXPECT_FALSE(compared.ok);
  EXPECT_NEAR(compared.error, 0.1 / std::sqrt(5000.0), 1e-6);
}

TEST(WitnessComparison, SeesWrongElementsBesideMasks) {
  at::Tensor expected = numbers({4, 5000});
  expected.slice(1, 0, 2000).fill_(-3.4028234663852886e38);
  EXPECT_TRUE(compareWithWitness(expected.clone(), stored(expected)).ok);
  at::Tensor found = expected.clone();
  found.slice(1, 2000, 5000) += 0.01;
  EXPECT_FALSE(compareWithWitness(found, stored(expected)).ok);
}

TEST(WitnessComparison, TakesIntegersAndBoolsExactly) {
  const at::Tensor expected = at::arange(20000).view({4, 5000}) * 1000;
  EXPECT_TRUE(compareWithWitness(expected, stored(expected)).ok);
  at::Tensor found = expected.clone();
  found[3][4999] += 1;
  EXPECT_FALSE(compareWithWitness(found, stored(expected)).ok);
  const at::Tensor mask = numbers({5000}) > 0;
  EXPECT_TRUE(compareWithWitness(mask, stored(mask)).ok);
  at::Tensor other = mask.clone();
  other[4321].logical_not_();
  EXPECT_FALSE(compareWithWitness(other, stored(mask)).ok);
}

TEST(WitnessComparison, SeesMissingNans) {
  const at::Tensor expected = numbers({5000});
  at::Tensor found = expected.clone();
  found[123] = kNan;
  EXPECT_FALSE(compareWithWitness(found, stored(expected)).ok);
  EXPECT_FALSE(compareWithWitness(expected, stored(found)).ok);
  EXPECT_TRUE(compareWithWitness(found, stored(found)).ok);
}

TEST(WitnessComparison, SeesOtherShapesAndDtypes) {
  const at::Tensor expected = numbers({50, 100});
  EXPECT_FALSE(compareWithWitness(expected.view({100, 50}), stored(expected)).ok);
  WitnessedOutput whole;
  whole.whole = numbers({6});
  EXPECT_TRUE(compareWithWitness(whole.whole.clone(), whole).ok);
  EXPECT_FALSE(compareWithWitness(whole.whole.to(at::kDouble), whole).ok);
  EXPECT_FALSE(compareWithWitness(whole.whole + 1e-2, whole).ok);
  // Complex numbers are stored as pairs.
  EXPECT_TRUE(compareWithWitness(at::view_as_complex(whole.whole.view({3, 2})),
                                 WitnessedOutput{"", whole.whole.view({3, 2}), {}, {}, {}, {}, 0})
                  .ok);
}

} // namespace cleave
