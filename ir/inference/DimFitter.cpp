//===- DimFitter.cpp - Expressions for observed sizes ---------------------===//
#include "ir/inference/DimFitter.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace cleave {

/// Samples beyond those that determine a polynomial.
static constexpr size_t kChecks = 3;

/// All products of at most `degree` of the names, sorted.
static std::vector<SymbolicDim::Monomial> monomialsOf(llvm::ArrayRef<std::string> names, size_t degree) {
  std::vector<SymbolicDim::Monomial> result{{}};
  for (size_t begin = 0, d = 0; d < degree; ++d) {
    size_t end = result.size();
    for (size_t i = begin; i < end; ++i)
      for (const std::string &name : names)
        if (result[i].empty() || result[i].back() <= name) {
          auto longer = result[i];
          longer.push_back(name);
          result.push_back(std::move(longer));
        }
    begin = end;
  }
  return result;
}

/// A size to try in place of `traced`: not above it where it is large, since tables of positions end
/// somewhere; never 1, which broadcasts.
static int64_t sampleSize(int64_t traced, int64_t multiple, uint32_t &state) {
  traced /= multiple;
  state = state * 1664525u + 1013904223u; // Numerical Recipes' generator: the same samples on every machine
  int64_t low = traced >= 16 ? traced / 2 : 2;
  int64_t high = traced >= 16 ? traced : traced + 9;
  return multiple * (low + (state >> 8) % (high - low + 1));
}

static long double valueOf(const SymbolicDim::Monomial &monomial, const llvm::StringMap<int64_t> &sizes) {
  long double value = 1;
  for (const std::string &name : monomial)
    value *= sizes.lookup(name);
  return value;
}

/// Gauss-Jordan with partial pivoting; empty when the matrix is singular.
static std::vector<std::vector<long double>> invert(std::vector<std::vector<long double>> matrix) {
  size_t n = matrix.size();
  std::vector<std::vector<long double>> result(n, std::vector<long double>(n, 0));
  for (size_t i = 0; i < n; ++i)
    result[i][i] = 1;
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < n; ++row)
      if (std::fabs(matrix[row][column]) > std::fabs(matrix[pivot][column]))
        pivot = row;
    if (std::fabs(matrix[pivot][column]) < 1e-9L)
      return {};
    std::swap(matrix[pivot], matrix[column]);
    std::swap(result[pivot], result[column]);
    for (size_t row = 0; row < n; ++row) {
      long double factor =
          row == column ? 1 - 1 / matrix[column][column] : matrix[row][column] / matrix[column][column];
      for (size_t k = 0; k < n; ++k) {
        matrix[row][k] -= factor * matrix[column][k];
        result[row][k] -= factor * result[column][k];
      }
    }
  }
  return result;
}

static bool isSamePoint(const llvm::StringMap<int64_t> &a, const llvm::StringMap<int64_t> &b) {
  return llvm::all_of(a, [&](auto &entry) { return b.lookup(entry.first()) == entry.second; });
}

DimFitter::DimFitter(std::vector<std::pair<std::string, int64_t>> traced,
                     const llvm::StringMap<int64_t> &multiples) {
  auto multipleOf = [&](llvm::StringRef name) { return std::max<int64_t>(1, multiples.lookup(name)); };
  std::vector<std::string> names;
  for (auto &[name, size] : traced)
    names.push_back(name);
  llvm::sort(names);
  monomials = monomialsOf(names, names.size() < 5 ? 3 : 2);
  points.emplace_back();
  for (auto &[name, size] : traced)
    points[0][name] = size;
  fitted = points.size();
  if (names.empty())
    return;
  uint32_t state = 12345;
  // Unlucky samples may not determine the polynomial; others then will.
  for (int attempt = 0; attempt < 50 && inverse.empty(); ++attempt) {
    points.resize(1);
    // A point that is there already would check nothing; a few names in small ranges may run out of others.
    for (int draw = 0; draw < 1000 && points.size() < monomials.size() + kChecks; ++draw) {
      llvm::StringMap<int64_t> point;
      for (auto &[name, size] : traced)
        point[name] = sampleSize(size, multipleOf(name), state);
      if (llvm::none_of(points, [&](auto &other) { return isSamePoint(point, other); }))
        points.push_back(std::move(point));
    }
    std::vector<std::vector<long double>> matrix(monomials.size());
    for (size_t i = 0; i < monomials.size(); ++i)
      for (auto &monomial : monomials)
        matrix[i].push_back(valueOf(monomial, points[i]));
    inverse = invert(std::move(matrix));
  }
  fitted = points.size();
  // Where programs often do something else: at one, and far above the traced sizes.
  for (auto [factor, more] :
       {std::pair(0, 1), std::pair(2, 1), std::pair(7, 3), std::pair(30, 7), std::pair(4111, 11)}) {
    auto &edge = points.emplace_back();
    for (auto &[name, size] : traced)
      edge[name] = factor * size + more * multipleOf(name);
  }
}

bool DimFitter::agrees(const SymbolicDim &dim, const std::vector<int64_t> &observed) const {
  for (auto [point, value] : llvm::zip(points, observed))
    if (value != kNotObserved && dim.evaluate(point) != value)
      return false;
  return true;
}

SymbolicDim DimFitter::solve(const std::vector<int64_t> &observed) const {
  if (llvm::all_of(observed, [&](int64_t value) { return value == observed[0] || value == kNotObserved; }))
    return SymbolicDim::constant(observed[0]);
  if (inverse.empty())
    return SymbolicDim::unknown();
  std::vector<long double> coefficients(monomials.size(), 0);
  for (size_t i = 0; i < monomials.size(); ++i)
    for (size_t k = 0; k < monomials.size(); ++k)
      coefficients[i] += inverse[i][k] * observed[k];
  for (int64_t divisor = 1; divisor <= 64; ++divisor) {
    std::map<SymbolicDim::Monomial, int64_t> terms;
    for (size_t i = 0; i < monomials.size(); ++i)
      if (std::fabs(coefficients[i] * divisor) < 9e15L)
        terms[monomials[i]] = std::llround(coefficients[i] * divisor);
    SymbolicDim dim = SymbolicDim::make(std::move(terms), divisor);
    if (agrees(dim, observed))
      return dim;
  }
  return SymbolicDim::unknown();
}

const SymbolicDim &DimFitter::fit(const std::vector<int64_t> &observed) {
  auto [entry, isNew] = known.try_emplace(observed);
  if (isNew)
    entry->second = solve(observed);
  return entry->second;
}

} // namespace cleave
