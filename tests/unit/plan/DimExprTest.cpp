//===- DimExprTest.cpp ----------------------------------------------------===//
#include "codegen/plan/DimExpr.h"
#include <gtest/gtest.h>
#include <limits>

namespace cleave::plan {

static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// (Σ coefficient·Πsymbols) / divisor.
static DimExpr makeExpr(std::vector<Term> terms, int64_t divisor = 1) {
  DimExpr expr;
  for (Term &term : terms)
    expr.terms.push_back(std::make_unique<Term>(std::move(term)));
  expr.divisor = divisor;
  return expr;
}

static Term makeTerm(int64_t coefficient, std::vector<uint32_t> symbols) {
  Term term;
  term.coefficient = coefficient;
  term.symbols = std::move(symbols);
  return term;
}

TEST(DimExpr, EvaluatesSumsProductsAndFloorDivision) {
  DimExpr expr = makeExpr({makeTerm(2, {0, 1}), makeTerm(-3, {})}, 2);
  EXPECT_EQ(evaluate(expr, {4, 5}), 18); // 37 / 2
  EXPECT_EQ(evaluate(expr, {1, 1}), -1); // -1 / 2, rounded down
  EXPECT_EQ(evaluate(constantDim(0), {}), 0);
  EXPECT_EQ(evaluate(symbolDim(1), {4, 5}), 5);
}

TEST(DimExpr, HasNoValueWhereItIsUnknownOrLeavesItsRange) {
  EXPECT_EQ(evaluate(unknownDim(), {}), std::nullopt);
  EXPECT_EQ(evaluate(makeExpr({}, -1), {}), std::nullopt);
  EXPECT_EQ(evaluate(symbolDim(2), {4, 5}), std::nullopt);
  EXPECT_EQ(evaluate(makeExpr({makeTerm(kMax, {0})}), {2}), std::nullopt);
  EXPECT_EQ(evaluate(makeExpr({makeTerm(kMax, {}), makeTerm(1, {})}), {}), std::nullopt);
}

TEST(DimExpr, IsConstantOnlyWithoutSymbols) {
  EXPECT_EQ(asConstant(constantDim(768)), 768);
  EXPECT_EQ(asConstant(symbolDim(0)), std::nullopt);
  EXPECT_EQ(asConstant(unknownDim()), std::nullopt);
}

TEST(DimExpr, PrintsInTheUsersWords) {
  std::vector<std::string> names = {"batch", "seq"};
  EXPECT_EQ(toString(constantDim(768), names), "768");
  EXPECT_EQ(toString(constantDim(0), names), "0");
  EXPECT_EQ(toString(unknownDim(), names), "?");
  EXPECT_EQ(toString(makeExpr({makeTerm(12, {0})}), names), "batch*12");
  EXPECT_EQ(toString(makeExpr({makeTerm(1, {1}), makeTerm(1, {})}, 2), names), "(seq + 1) / 2");
  EXPECT_EQ(toString(makeExpr({makeTerm(1, {0, 1}), makeTerm(-2, {1})}), names), "batch*seq - seq*2");
  EXPECT_EQ(toString(symbolDim(7), names), "#7");
}

} // namespace cleave::plan
