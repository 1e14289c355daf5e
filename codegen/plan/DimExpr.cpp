//===- DimExpr.cpp - Sizes as expressions of dynamic dimensions -----------===//
#include "codegen/plan/DimExpr.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace cleave::plan {

/// The coefficient times its symbols.
static std::optional<int64_t> evaluate(const Term &term, llvm::ArrayRef<int64_t> symbols) {
  std::optional<int64_t> product = term.coefficient;
  for (uint32_t symbol : term.symbols) {
    if (symbol >= symbols.size())
      return std::nullopt;
    product = llvm::checkedMul(*product, symbols[symbol]);
    if (!product)
      return std::nullopt;
  }
  return product;
}

static int64_t floorDivide(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

std::optional<int64_t> evaluate(const DimExpr &expr, llvm::ArrayRef<int64_t> symbols) {
  if (expr.divisor <= 0)
    return std::nullopt;
  int64_t sum = 0;
  for (const auto &term : expr.terms) {
    std::optional<int64_t> value = term ? evaluate(*term, symbols) : std::nullopt;
    std::optional<int64_t> next = value ? llvm::checkedAdd(sum, *value) : std::nullopt;
    if (!next)
      return std::nullopt;
    sum = *next;
  }
  return floorDivide(sum, expr.divisor);
}

// Without sizes, an expression with a symbol has no value.
std::optional<int64_t> asConstant(const DimExpr &expr) { return evaluate(expr, {}); }

std::optional<uint32_t> asSymbol(const DimExpr &expr) {
  if (expr.divisor != 1 || expr.terms.size() != 1 || expr.terms[0]->coefficient != 1 ||
      expr.terms[0]->symbols.size() != 1)
    return std::nullopt;
  return expr.terms[0]->symbols[0];
}

DimExpr constantDim(int64_t value) {
  DimExpr expr;
  if (value == 0)
    return expr;
  expr.terms.push_back(std::make_unique<Term>());
  expr.terms.back()->coefficient = value;
  return expr;
}

DimExpr symbolDim(uint32_t symbol) {
  DimExpr expr = constantDim(1);
  expr.terms.back()->symbols.push_back(symbol);
  return expr;
}

DimExpr unknownDim() {
  DimExpr expr;
  expr.divisor = 0;
  return expr;
}

/// The term without its sign: `seq`, `batch*12`, `768`.
static std::string toString(const Term &term, llvm::ArrayRef<std::string> symbolNames) {
  std::string text;
  for (uint32_t symbol : term.symbols) {
    text += text.empty() ? "" : "*";
    text += symbol < symbolNames.size() ? symbolNames[symbol] : "#" + std::to_string(symbol);
  }
  // Unsigned, so that the lowest int64 has a magnitude, too.
  uint64_t magnitude = term.coefficient < 0 ? -static_cast<uint64_t>(term.coefficient) : term.coefficient;
  if (text.empty())
    return std::to_string(magnitude);
  return magnitude == 1 ? text : text + "*" + std::to_string(magnitude);
}

std::string toString(const DimExpr &expr, llvm::ArrayRef<std::string> symbolNames) {
  if (expr.divisor <= 0)
    return "?";
  std::string sum;
  for (const auto &term : expr.terms) {
    bool negative = term->coefficient < 0;
    if (sum.empty())
      sum = negative ? "-" : "";
    else
      sum += negative ? " - " : " + ";
    sum += toString(*term, symbolNames);
  }
  if (sum.empty())
    sum = "0";
  if (expr.divisor == 1)
    return sum;
  return (expr.terms.size() > 1 ? "(" + sum + ")" : sum) + " / " + std::to_string(expr.divisor);
}

} // namespace cleave::plan
