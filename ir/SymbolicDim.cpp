//===- SymbolicDim.cpp - Sizes as polynomials of symbols ------------------===//
#include "ir/SymbolicDim.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

namespace cleave {

bool isDimName(llvm::StringRef name) {
  return !name.empty() && (llvm::isAlpha(name[0]) || name[0] == '_') &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

SymbolicDim SymbolicDim::constant(int64_t value) { return make({{Monomial{}, value}}); }
SymbolicDim SymbolicDim::symbol(llvm::StringRef name) { return make({{Monomial{name.str()}, 1}}); }
SymbolicDim SymbolicDim::unknown() {
  SymbolicDim dim;
  dim.divisor = 0;
  return dim;
}

SymbolicDim SymbolicDim::make(std::map<Monomial, int64_t> terms, int64_t divisor) {
  SymbolicDim dim;
  int64_t common = divisor;
  for (auto &[monomial, coefficient] : terms)
    if (coefficient != 0) {
      dim.terms.emplace(monomial, coefficient);
      common = std::gcd(common, coefficient);
    }
  dim.divisor = common ? divisor / common : divisor;
  for (auto &[monomial, coefficient] : dim.terms)
    coefficient /= common;
  if (dim.terms.empty())
    dim.divisor = 1;
  return dim;
}

std::optional<int64_t> SymbolicDim::asConstant() const {
  if (isUnknown() || (!terms.empty() && !terms.rbegin()->first.empty()))
    return std::nullopt;
  return evaluate({});
}

std::optional<int64_t> SymbolicDim::evaluate(const llvm::StringMap<int64_t> &sizes) const {
  if (isUnknown())
    return std::nullopt;
  int64_t sum = 0;
  for (auto &[monomial, coefficient] : terms) {
    int64_t term = coefficient;
    for (auto &name : monomial) {
      auto size = sizes.find(name);
      if (size == sizes.end() || llvm::MulOverflow(term, size->second, term))
        return std::nullopt;
    }
    if (llvm::AddOverflow(sum, term, sum))
      return std::nullopt;
  }
  return llvm::divideFloorSigned(sum, divisor);
}

static std::string termText(const SymbolicDim::Monomial &monomial, int64_t coefficient) {
  if (monomial.empty())
    return std::to_string(coefficient);
  std::string product = llvm::join(monomial, "*");
  return coefficient == 1 ? product : std::to_string(coefficient) + "*" + product;
}

std::string SymbolicDim::str() const {
  if (isUnknown())
    return "?";
  // Higher degrees first, as polynomials are usually written.
  std::vector<std::pair<Monomial, int64_t>> ordered(terms.begin(), terms.end());
  llvm::stable_sort(ordered, [](auto &a, auto &b) { return a.first.size() > b.first.size(); });
  std::string sum;
  for (auto &[monomial, coefficient] : ordered) {
    if (!sum.empty())
      sum += coefficient < 0 ? " - " : " + ";
    sum += termText(monomial, sum.empty() ? coefficient : std::abs(coefficient));
  }
  if (sum.empty())
    sum = "0";
  return divisor == 1 ? sum : "(" + sum + ") floordiv " + std::to_string(divisor);
}

/// Parses a term such as `3*batch*seq` into `terms`.
static bool parseTerm(llvm::StringRef text, int64_t sign, std::map<SymbolicDim::Monomial, int64_t> &terms) {
  SymbolicDim::Monomial monomial;
  int64_t coefficient = sign;
  llvm::SmallVector<llvm::StringRef> factors;
  text.split(factors, '*');
  for (llvm::StringRef factor : factors) {
    factor = factor.trim();
    int64_t number;
    if (!factor.getAsInteger(10, number)) {
      if (llvm::MulOverflow(coefficient, number, coefficient))
        return false;
    } else if (isDimName(factor)) {
      monomial.push_back(factor.str());
    } else {
      return false;
    }
  }
  llvm::sort(monomial);
  return !llvm::AddOverflow(terms[monomial], coefficient, terms[monomial]);
}

std::optional<SymbolicDim> SymbolicDim::parse(llvm::StringRef text) {
  text = text.trim();
  if (text == "?")
    return unknown();
  int64_t divisor = 1;
  auto [sum, by] = text.split("floordiv");
  if (!by.empty()) {
    sum = sum.trim();
    if (by.trim().getAsInteger(10, divisor) || divisor < 1 || !sum.consume_front("(") ||
        !sum.consume_back(")"))
      return std::nullopt;
  }
  std::map<Monomial, int64_t> terms;
  // A sign between terms has blanks around it; a sign before a number belongs to the number.
  llvm::StringRef rest = sum.trim();
  int64_t sign = 1;
  while (true) {
    size_t next = std::min(rest.find(" + "), rest.find(" - "));
    if (!parseTerm(rest.substr(0, next), sign, terms))
      return std::nullopt;
    if (next == llvm::StringRef::npos)
      return make(std::move(terms), divisor);
    sign = rest[next + 1] == '+' ? 1 : -1;
    rest = rest.substr(next + 3);
  }
}

} // namespace cleave
