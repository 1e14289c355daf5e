//===- LimitRange.h - Limits for which an answer is the same ----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H
#define CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace cleave {

/// A search that asks of a limit of memory only whether sizes fit comes to the same with every limit between
/// the largest size that did and the smallest that did not.
struct LimitRange {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  /// The least limit, and the next one that is too large; none is where that is kNoLimit.
  int64_t least = 0, tooLarge = kNoLimit;

  void note(int64_t size, bool fits) {
    if (fits)
      least = std::max(least, size);
    else
      tooLarge = std::min(tooLarge, size);
  }
  /// \param limit  nothing: not limited.
  bool contains(std::optional<int64_t> limit) const {
    const int64_t bytes = limit.value_or(kNoLimit);
    return bytes >= least && (bytes < tooLarge || tooLarge == kNoLimit);
  }
  bool operator==(const LimitRange &) const = default;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H
