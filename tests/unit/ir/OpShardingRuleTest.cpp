#include "ir/semantics/OpShardingRule.h"
#include <gmock/gmock.h>

namespace cleave {
namespace {

using Shape = std::optional<llvm::SmallVector<int64_t>>;

Shape shape(std::initializer_list<int64_t> sizes) { return llvm::SmallVector<int64_t>(sizes); }

/// `pass 4, reduce 8; 0 1, 1 -> 0`: factors, then each operand's and result's.
std::string describe(const std::optional<OpShardingRule> &rule) {
  if (!rule)
    return "none";
  static const char *const kKinds[] = {"pass",      "reduce", "lookup", "composed",
                                       "broadcast", "prefix", "halo",   "block"};
  std::string text;
  for (const OpShardingRule::Factor &factor : rule->factors)
    text += (text.empty() ? "" : ", ") + std::string(kKinds[int(factor.kind)]) + " " +
            std::to_string(factor.size);
  auto add = [&](llvm::ArrayRef<OpShardingRule::Dims> side) {
    for (size_t i = 0; i < side.size(); ++i) {
      text += i ? "," : "";
      for (const OpShardingRule::Dim &dim : side[i]) {
        text += dim.empty() ? " 1" : " ";
        for (size_t f = 0; f < dim.size(); ++f)
          text += (f ? "*" : "") + std::to_string(dim[f]);
      }
    }
  };
  text += ";";
  add(rule->operands);
  text += " ->";
  add(rule->results);
  return text;
}

TEST(EinsumRuleTest, ReadsKindsOffTheSidesALetterIsOn) {
  EXPECT_EQ(describe(einsumRule("mk, kn -> mn", "", {shape({2, 3}), shape({3, 4})}, {shape({2, 4})})),
            "pass 2, reduce 3, pass 4; 0 1, 1 2 -> 0 2");
  EXPECT_EQ(describe(einsumRule("m -> mn", "", {shape({2})}, {shape({2, 4})})),
            "pass 2, broadcast 4; 0 -> 0 1");
}

TEST(EinsumRuleTest, AlignsLeadingDimensionsFromTheRight) {
  EXPECT_EQ(describe(einsumRule("...k, nk, n -> ...n", "", {shape({5, 2, 3}), shape({4, 3}), shape({4})},
                                {shape({5, 2, 4})})),
            "pass 5, pass 2, reduce 3, pass 4; 0 1 2, 3 2, 3 -> 0 1 3");
  EXPECT_EQ(describe(einsumRule("...k, ...k -> ...", "", {shape({2, 3}), shape({5, 2, 3})}, {shape({5, 2})})),
            "pass 2, reduce 3, pass 5; 0 1, 2 0 1 -> 2 0");
}

TEST(EinsumRuleTest, GivesABroadcastSizeOneAFactorOfItsOwn) {
  EXPECT_EQ(describe(einsumRule("...k, ...k -> ...", "", {shape({5, 3}), shape({1, 3})}, {shape({5})})),
            "pass 5, reduce 3, reduce 1; 0 1, 2 1 -> 0");
  EXPECT_EQ(describe(einsumRule("...k, ...k -> ...", "", {shape({1, 3}), shape({5, 3})}, {shape({5})})),
            "reduce 1, reduce 3, pass 5; 0 1, 2 1 -> 2");
}

TEST(EinsumRuleTest, TakesKindsAsTold) {
  EXPECT_EQ(describe(einsumRule("vd, ... -> ...d", "v:lookup", {shape({9, 3}), shape({2})}, {shape({2, 3})})),
            "lookup 9, pass 3, pass 2; 0 1, 2 -> 2 1");
}

TEST(EinsumRuleTest, LeavesOperandsThatAreNoTensorsWithoutDimensions) {
  EXPECT_EQ(describe(einsumRule("mk, kn, n -> mn", "", {shape({2, 3}), shape({3, 4}), std::nullopt},
                                {shape({2, 4})})),
            "pass 2, reduce 3, pass 4; 0 1, 1 2, -> 0 2");
  EXPECT_EQ(describe(einsumRule("m -> m", "", {shape({2}), std::nullopt}, {shape({2})})), "pass 2; 0, -> 0");
}

TEST(EinsumRuleTest, HasNoneWhereRanksDoNotFit) {
  EXPECT_EQ(describe(einsumRule("mk, kn -> mn", "", {shape({2, 3, 4}), shape({3, 4})}, {shape({2, 4})})),
            "none");
  EXPECT_EQ(describe(einsumRule("...mk -> ...m", "", {shape({2})}, {shape({2})})), "none");
  EXPECT_EQ(describe(einsumRule("m -> m", "", {shape({2})}, {std::nullopt})), "none") << "an unknown result";
}

TEST(ViewRuleTest, RefinesBothShapes) {
  EXPECT_EQ(describe(viewRule({4, 6}, {4, 2, 3})), "pass 4, pass 2, pass 3; 0 1*2 -> 0 1 2");
  EXPECT_EQ(describe(viewRule({4, 6}, {24})), "pass 4, pass 6; 0 1 -> 0*1");
  EXPECT_EQ(describe(viewRule({2, 12}, {4, 6})), "pass 2, pass 2, pass 6; 0 1*2 -> 0*1 2");
  EXPECT_EQ(describe(viewRule({4, 1, 6}, {1, 4, 6})).substr(0, 14), "pass 4, pass 6");
}

TEST(ViewRuleTest, BlocksDimensionsWithoutARefinement) {
  EXPECT_EQ(describe(viewRule({5, 4, 6}, {5, 6, 4})),
            "pass 5, block 4, block 6, block 6, block 4; 0 1 2 -> 0 3 4");
}

TEST(ViewRuleTest, HasNoneForEmptyOrUnequalShapes) {
  EXPECT_EQ(describe(viewRule({0, 4}, {0, 2})), "none");
  EXPECT_EQ(describe(viewRule({4}, {3})), "none");
}

TEST(ElementwiseRuleTest, BroadcastsFromTheRight) {
  EXPECT_EQ(describe(elementwiseRule({shape({2, 3}), shape({3}), std::nullopt}, {2, 3})),
            "pass 2, pass 3; 0 1, 1, -> 0 1");
  EXPECT_EQ(describe(elementwiseRule({shape({1, 3})}, {2, 3})), "broadcast 2, pass 3, reduce 1; 2 1 -> 0 1");
}

TEST(ElementwiseRuleTest, HasNoneWhereShapesDoNotBroadcast) {
  EXPECT_EQ(describe(elementwiseRule({shape({2})}, {3})), "none");
  EXPECT_EQ(describe(elementwiseRule({shape({2, 3})}, {3})), "none");
}

TEST(AlongRuleTest, CountsNegativeDimensionsFromTheEnd) {
  EXPECT_EQ(describe(ruleWithKind({2, 3, 4}, {-1}, FactorKind::NeedsReplication, 2, false)),
            "pass 2, pass 3, block 4; 0 1 2, -> 0 1 2");
}

TEST(AlongRuleTest, DropsReducedDimensionsOrKeepsThemAsOne) {
  EXPECT_EQ(describe(ruleWithKind({2, 3}, {0}, FactorKind::Reduce, 1, false)), "reduce 2, pass 3; 0 1 -> 1");
  EXPECT_EQ(describe(ruleWithKind({2, 3}, {0}, FactorKind::Reduce, 1, true)),
            "reduce 2, broadcast 1, pass 3; 0 2 -> 1 2");
}

} // namespace
} // namespace cleave
