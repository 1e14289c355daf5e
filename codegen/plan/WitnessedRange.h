//===- WitnessedRange.h - Sizes at which trace and module agree -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_WITNESSEDRANGE_H
#define CLEAVE_CODEGEN_PLAN_WITNESSEDRANGE_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace cleave::plan {

/// Sizes of a dynamic dimension at which trace and module agree, as comparisons or guards show.
struct WitnessedRange {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  int64_t min = 1, max = kNoLimit, divisibleBy = 1;

  bool contains(int64_t size) const { return min <= size && size <= max && size % divisibleBy == 0; }
  /// True if `size` is contained, and no other size is.
  bool isOnly(int64_t size) const;
  bool isAnySize() const { return min <= 1 && max == kNoLimit && divisibleBy == 1; }
  /// The sizes in both; nothing if the least common multiple of the two `divisibleBy` overflows.
  std::optional<WitnessedRange> intersectedWith(const WitnessedRange &other) const;
  /// `4 to 16 in multiples of 4`, `128`, `2 or more`, `any size`.
  std::string str() const;
  bool operator==(const WitnessedRange &) const = default;
};

/// Nothing if the dimension was not compared.
std::optional<WitnessedRange> witnessedRange(const Symbol &symbol);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_WITNESSEDRANGE_H
