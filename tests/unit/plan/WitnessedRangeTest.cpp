//===- WitnessedRangeTest.cpp ---------------------------------------------===//
#include "codegen/plan/WitnessedRange.h"
#include <gtest/gtest.h>

namespace cleave::plan {

static constexpr int64_t kNoLimit = WitnessedRange::kNoLimit;

TEST(WitnessedRange, ContainsMultiplesWithinItsEnds) {
  const WitnessedRange range{4, 16, 4};
  for (int64_t size : {4, 8, 16})
    EXPECT_TRUE(range.contains(size)) << size;
  for (int64_t size : {0, 2, 6, 20})
    EXPECT_FALSE(range.contains(size)) << size;
  EXPECT_TRUE((WitnessedRange{1, kNoLimit, 1}.contains(kNoLimit)));
}

TEST(WitnessedRange, KnowsWhetherOneSizeIsAlone) {
  EXPECT_TRUE((WitnessedRange{128, 128, 1}.isOnly(128)));
  EXPECT_TRUE((WitnessedRange{5, 11, 8}.isOnly(8)));
  EXPECT_TRUE((WitnessedRange{0, 15, 8}.isOnly(8)));
  EXPECT_FALSE((WitnessedRange{5, 16, 8}.isOnly(8)));
  EXPECT_FALSE((WitnessedRange{1, 8, 4}.isOnly(8)));
  EXPECT_FALSE((WitnessedRange{128, kNoLimit, 1}.isOnly(128)));
  EXPECT_FALSE((WitnessedRange{4, 4, 1}.isOnly(8)));
}

TEST(WitnessedRange, Intersects) {
  const auto both = WitnessedRange{4, 48, 4}.intersectedWith({6, kNoLimit, 6});
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(*both, (WitnessedRange{6, 48, 12}));
  const int64_t large = (int64_t(1) << 40) - 1;
  EXPECT_FALSE((WitnessedRange{1, 2, large}.intersectedWith({1, 2, large + 1}).has_value()));
}

TEST(WitnessedRange, IsReadable) {
  EXPECT_EQ((WitnessedRange{4, 16, 4}.str()), "4 to 16 in multiples of 4");
  EXPECT_EQ((WitnessedRange{1, 16, 1}.str()), "1 to 16");
  EXPECT_EQ((WitnessedRange{8, 8, 8}.str()), "8");
  EXPECT_EQ((WitnessedRange{2, kNoLimit, 1}.str()), "2 or more");
  EXPECT_EQ((WitnessedRange{8, kNoLimit, 8}.str()), "8 or more in multiples of 8");
  EXPECT_EQ((WitnessedRange{1, kNoLimit, 8}.str()), "multiples of 8");
  EXPECT_EQ((WitnessedRange{1, kNoLimit, 1}.str()), "any size");
}

TEST(WitnessedRange, IsNothingForASymbolThatWasNotCompared) {
  Symbol symbol;
  EXPECT_FALSE(witnessedRange(symbol).has_value());
  symbol.witnessed_max = 9;
  EXPECT_EQ(witnessedRange(symbol)->str(), "1 to 9");
}

} // namespace cleave::plan
