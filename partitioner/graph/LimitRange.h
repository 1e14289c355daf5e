//===- LimitRange.h - Limits that give the same result ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H
#define CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace cleave {

/// The memory limits for which a search gives the same result. A search that only compares sizes with a limit
/// does the same for every limit between the largest size that fitted and the smallest that did not.
struct LimitRange {
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  /// The range [least, tooLarge); it has no upper end if `tooLarge` is kNoLimit.
  int64_t least = 0, tooLarge = kNoLimit;

  void note(int64_t size, bool fits) {
    if (fits)
      least = std::max(least, size);
    else
      tooLarge = std::min(tooLarge, size);
  }
  /// \param limit  nothing: no limit.
  bool contains(std::optional<int64_t> limit) const {
    const int64_t bytes = limit.value_or(kNoLimit);
    return bytes >= least && (bytes < tooLarge || tooLarge == kNoLimit);
  }
  bool operator==(const LimitRange &) const = default;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_LIMITRANGE_H
