//===- SearchLimits.h - How far a search over downsets goes -----*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H
#define CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H

#include <cstdint>
#include <functional>
#include <string>

namespace cleave {

struct SearchLimits {
  /// Beyond, only some cuts are looked at: those of a contracted graph, and along linear orders.
  uint64_t downsets = 200000;
  /// Of all searches together: downsets times devices of each kind, pairs of downsets, with the values at
  /// what the larger one adds, and for each pair the states of the smaller one that it extends. Beyond, the
  /// best until then is given.
  uint64_t work = 1000000000;
  bool operator==(const SearchLimits &) const = default;
};

/// States of the dynamic program, which take 16 bytes each, that are tried at most.
inline constexpr uint64_t kMostSearchStates = 1 << 25;

/// While it lives, searches of this thread end early once `isWanted`, asked now and then, says so, with the
/// best until then. Of the thread, since pipelines of passes are text, in which nothing could be handed to
/// them.
class CancellationScope {
public:
  /// \param isWanted  may be empty.
  explicit CancellationScope(std::function<bool()> isWanted);
  ~CancellationScope();
  CancellationScope(const CancellationScope &) = delete;
  CancellationScope &operator=(const CancellationScope &) = delete;

  static bool isRequested();

private:
  std::function<bool()> isWanted;
  const CancellationScope *outer;
};

/// Whether a search saw all cuts, or what kept it from that.
enum class SearchEnd { Complete, TooManyDownsets, TooManyStates, OutOfWork, Interrupted };

/// What is known of a search's answer.
struct SearchProof {
  /// No contiguous cut is better, for all were looked at or it meets a lower bound.
  bool isExact = false;
  SearchEnd end = SearchEnd::Complete;
  /// Looked at; 0 where they were too many, so that only linear orders were.
  uint64_t downsets = 0;

  /// `exact: 1,428 downsets`, or `linearised: more than 200,000 downsets`.
  std::string describe(const SearchLimits &limits) const;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H
