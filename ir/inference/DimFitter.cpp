//===- DimFitter.cpp - Expressions for observed sizes ---------------------===//
#include "ir/inference/DimFitter.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace cleave {

/// Samples besides those that determine a polynomial.
static constexpr size_t kChecks = 3;

/// All products of at most `degree` of the names, each at most as often as `powers` allows, sorted.
static std::vector<SymbolicDim::Monomial> monomialsOf(llvm::ArrayRef<std::string> names, size_t degree,
                                                      const llvm::StringMap<int64_t> &powers) {
  std::vector<SymbolicDim::Monomial> result{{}};
  for (size_t begin = 0, d = 0; d < degree; ++d) {
    size_t end = result.size();
    for (size_t i = begin; i < end; ++i)
      for (const std::string &name : names)
        if (result[i].empty() || result[i].back() <= name) {
          auto longer = result[i];
          longer.push_back(name);
          if (llvm::count(longer, name) > powers.lookup(name))
            continue;
          result.push_back(std::move(longer));
        }
    begin = end;
  }
  return result;
}

/// The range stays at or below a large example size, since tables of positions end somewhere, and above 1,
/// which broadcasts. With a minimum, it has some sizes above it.
std::pair<int64_t, int64_t> DimFitter::triedRange(int64_t exampleSize, const SizeLimits &limits) {
  int64_t steps = exampleSize / limits.divisibleBy, least = (limits.min - 1) / limits.divisibleBy + 1;
  int64_t low = std::max(steps >= 16 ? steps / 2 : 2, least);
  int64_t high = steps >= 16 ? steps : steps + 9;
  if (least > 1)
    high = std::max(high, low + 9);
  high = std::min(high, limits.max / limits.divisibleBy);
  return {limits.divisibleBy * std::min(low, high), limits.divisibleBy * high};
}

/// A random size from the range.
static int64_t sampleSize(std::pair<int64_t, int64_t> range, int64_t multiple, uint32_t &state) {
  state = state * 1664525u + 1013904223u; // Numerical Recipes' generator: the same samples on every machine
  return range.first + multiple * ((state >> 8) % ((range.second - range.first) / multiple + 1));
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

DimFitter::DimFitter(std::vector<std::pair<std::string, int64_t>> exampleSizes,
                     const llvm::StringMap<SizeLimits> &limits)
    : limits(limits) {
  auto rangeOf = [&](llvm::StringRef name, int64_t size) { return triedRange(size, limits.lookup(name)); };
  std::vector<std::string> names;
  llvm::StringMap<int64_t> powers;
  for (auto &[name, size] : exampleSizes) {
    names.push_back(name);
    auto [low, high] = rangeOf(name, size);
    // A polynomial needs one size more than its power.
    powers[name] = std::max<int64_t>(1, (high - low) / limits.lookup(name).divisibleBy - 1);
  }
  llvm::sort(names);
  monomials = monomialsOf(names, names.size() < 5 ? 3 : 2, powers);
  points.emplace_back();
  for (auto &[name, size] : exampleSizes)
    points[0][name] = size;
  fitted = points.size();
  if (names.empty())
    return;
  uint32_t state = 12345;
  // Random samples may not determine the polynomial; then others are drawn.
  for (int attempt = 0; attempt < 50 && inverse.empty(); ++attempt) {
    points.resize(1);
    // A repeated point checks nothing; with few names in small ranges, there may be no new ones.
    for (int draw = 0; draw < 1000 && points.size() < monomials.size() + kChecks; ++draw) {
      llvm::StringMap<int64_t> point;
      for (auto &[name, size] : exampleSizes)
        point[name] = sampleSize(rangeOf(name, size), limits.lookup(name).divisibleBy, state);
      if (llvm::none_of(points, [&](auto &other) { return isSamePoint(point, other); }))
        points.push_back(std::move(point));
    }
    if (points.size() < monomials.size())
      continue;
    std::vector<std::vector<long double>> matrix(monomials.size());
    for (size_t i = 0; i < monomials.size(); ++i)
      for (auto &monomial : monomials)
        matrix[i].push_back(valueOf(monomial, points[i]));
    inverse = invert(std::move(matrix));
  }
  fitted = points.size();
  // Edges: size 1, and sizes far above the example ones, where programs often behave differently.
  constexpr std::pair<int, int> edges[kEdges] = {{0, 1}, {2, 1}, {7, 3}, {30, 7}, {4111, 11}};
  for (auto [factor, more] : edges) {
    auto &edge = points.emplace_back();
    for (auto &[name, size] : exampleSizes)
      edge[name] = factor * size + more * limits.lookup(name).divisibleBy;
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
  auto rounded = findRounded(observed);
  auto isSeen = [&](auto &point) { return isObserved(point, observed); };
  if (rounded.size() == 1 && rounded[0].low == rounded[0].high && llvm::all_of(rowFor(rounded[0]), isSeen))
    return SymbolicDim::make({{{rounded[0].name}, rounded[0].a}, {{}, rounded[0].low}}, rounded[0].d);
  return SymbolicDim::unknown();
}

bool DimFitter::isObserved(const llvm::StringMap<int64_t> &at, const std::vector<int64_t> &observed) const {
  return llvm::any_of(llvm::zip(points, observed), [&](auto pair) {
    return std::get<1>(pair) != kNotObserved && isSamePoint(at, std::get<0>(pair));
  });
}

/// A row as long as the candidate's period, and as the periods of divisors up to 4, 6, 8 or 12.
std::vector<llvm::StringMap<int64_t>> DimFitter::rowFor(const Rounded &candidate) const {
  SizeLimits limit = limits.lookup(candidate.name);
  int64_t exampleSize = points.front().lookup(candidate.name), length = std::max<int64_t>(24, candidate.d);
  int64_t reach = (length - 1) * limit.divisibleBy, low = triedRange(exampleSize, limit).first;
  // Sizes below the example size if there are enough; otherwise sizes above it.
  int64_t begin = exampleSize - reach >= low         ? exampleSize - reach
                  : exampleSize <= limit.max - reach ? exampleSize
                                                     : low;
  std::vector<llvm::StringMap<int64_t>> row(length, points.front());
  for (auto [i, point] : llvm::enumerate(row))
    point[candidate.name] = begin + int64_t(i) * limit.divisibleBy;
  return row;
}

std::optional<DimFitter::Rounded> DimFitter::findRounded(const std::string &name,
                                                         const std::vector<int64_t> &observed) const {
  // Keeps all products below within 64 bits.
  constexpr int64_t kLargestDivisor = 64, kLargestFactor = 1 << 20, kLargestSize = int64_t(1) << 40;
  std::vector<std::pair<int64_t, int64_t>> seen;
  for (auto [point, value] : llvm::zip(points, observed)) {
    if (value == kNotObserved)
      continue;
    if (point.lookup(name) > kLargestSize || value > kLargestSize || value < -kLargestSize)
      return std::nullopt;
    seen.emplace_back(point.lookup(name), value);
  }
  auto [first, last] = std::minmax_element(seen.begin(), seen.end());
  std::optional<Rounded> found;
  for (int64_t d = 2; d <= kLargestDivisor && first->first != last->first; ++d) {
    auto slope = static_cast<long double>(last->second - first->second) / (last->first - first->first);
    int64_t a = std::llround(slope * d);
    // Lower terms were tried before.
    if (a < 1 || a > kLargestFactor || std::gcd(a, d) > 1)
      continue;
    Rounded candidate{name, a, d, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    for (auto [size, value] : seen) {
      candidate.low = std::max(candidate.low, d * value - a * size);
      candidate.high = std::min(candidate.high, d * value - a * size + d - 1);
    }
    if (candidate.low > candidate.high)
      continue;
    if (found)
      return std::nullopt;
    found = candidate;
  }
  return found;
}

std::vector<DimFitter::Rounded> DimFitter::findRounded(const std::vector<int64_t> &observed) const {
  std::vector<Rounded> found;
  for (auto &entry : points.front())
    if (auto candidate = findRounded(entry.first().str(), observed))
      found.push_back(*candidate);
  return found;
}

std::vector<llvm::StringMap<int64_t>>
DimFitter::distinguishingSamples(const std::vector<int64_t> &observed) const {
  auto rounded = findRounded(observed);
  if (rounded.empty())
    return {};
  // Candidates do not depend on the order, but samples do.
  llvm::sort(rounded, [](auto &one, auto &other) { return one.name < other.name; });
  const Rounded &first = rounded[0];
  if (rounded.size() == 1 && first.low == first.high)
    return rowFor(first);
  llvm::StringMap<int64_t> point = points.front();
  int64_t &size = point[first.name];
  if (rounded.size() > 1) {
    // For names whose samples have so far been large and small together.
    size = 30 * size + 7;
  } else {
    // Where a·size + middle is a multiple of d, a smaller c gives a result smaller by one.
    int64_t middle = first.low + (first.high - first.low + 1) / 2;
    while ((first.a * size + middle) % first.d != 0)
      ++size;
  }
  return {std::move(point)};
}

llvm::StringMap<int64_t> DimFitter::resized(llvm::StringRef name, int64_t size) const {
  llvm::StringMap<int64_t> point = points.front();
  point[name] = size;
  return point;
}

void DimFitter::addSamples(const std::vector<llvm::StringMap<int64_t>> &more) {
  for (auto &point : more)
    if (llvm::none_of(points, [&](auto &other) { return isSamePoint(point, other); }))
      points.push_back(point);
  known.clear();
}

const SymbolicDim &DimFitter::fit(const std::vector<int64_t> &observed) {
  auto [entry, isNew] = known.try_emplace(observed);
  if (isNew)
    entry->second = solve(observed);
  return entry->second;
}

} // namespace cleave
