//===- WitnessedRange.cpp - Sizes that were compared ----------------------===//
#include "codegen/plan/WitnessedRange.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <algorithm>
#include <numeric>

namespace cleave::plan {

bool WitnessedRange::isOnly(int64_t size) const {
  const bool hasSmaller = size - divisibleBy >= std::max<int64_t>(min, 1);
  const bool hasLarger = divisibleBy <= max - size;
  return contains(size) && !hasSmaller && !hasLarger;
}

std::optional<WitnessedRange> WitnessedRange::intersectedWith(const WitnessedRange &other) const {
  const int64_t common = std::gcd(divisibleBy, other.divisibleBy);
  auto multiple = llvm::checkedMul(divisibleBy / common, other.divisibleBy);
  if (!multiple)
    return std::nullopt;
  return WitnessedRange{std::max(min, other.min), std::min(max, other.max), *multiple};
}

std::string WitnessedRange::str() const {
  if (min == max)
    return std::to_string(min);
  const std::string multiples = divisibleBy == 1 ? "" : "multiples of " + std::to_string(divisibleBy);
  if (min <= 1 && max == kNoLimit)
    return multiples.empty() ? "any size" : multiples;
  const std::string bounds =
      std::to_string(min) + (max == kNoLimit ? " or more" : " to " + std::to_string(max));
  return multiples.empty() ? bounds : bounds + " in " + multiples;
}

std::optional<WitnessedRange> witnessedRange(const Symbol &symbol) {
  if (symbol.witnessed_max == 0)
    return std::nullopt;
  return WitnessedRange{symbol.witnessed_min, symbol.witnessed_max, symbol.witnessed_divisible_by};
}

} // namespace cleave::plan
