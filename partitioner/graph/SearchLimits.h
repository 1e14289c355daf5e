//===- SearchLimits.h - Limits of a search over downsets --------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H
#define CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H

#include <cstdint>
#include <functional>
#include <string>

namespace cleave {

struct SearchLimits {
  /// Beyond this number, the search looks only at cuts of a contracted graph and along linear orders.
  uint64_t downsets = 200000;
  /// Budget of work of all searches together. Work is counted as: the number of states of the dynamic program
  /// (downsets × numbers of devices used), plus, for each pair (I', I) of downsets visited, 1 + the number of
  /// nets of the group added last + the number of states of I', the smaller one. Beyond the budget, the best
  /// result so far is returned.
  uint64_t work = 1000000000;
  bool operator==(const SearchLimits &) const = default;
};

/// Limit of the dynamic program's states, which take 16 bytes each.
inline constexpr uint64_t kMaxSearchStates = 1 << 25;

/// Stops searches of this thread early, with the best result so far, once `isCancelled` returns true;
/// searches poll it. The scope is per thread because pass pipelines are text, which cannot carry a stop
/// token.
class CancellationScope {
public:
  /// \param isCancelled  may be empty: never.
  explicit CancellationScope(std::function<bool()> isCancelled);
  ~CancellationScope();
  CancellationScope(const CancellationScope &) = delete;
  CancellationScope &operator=(const CancellationScope &) = delete;

  static bool isRequested();

private:
  std::function<bool()> isCancelled;
  const CancellationScope *outer;
};

/// How a search ended: it saw all cuts, or the reason why it did not.
enum class SearchEnd { Complete, TooManyDownsets, TooManyStates, OutOfWork, Interrupted };

/// Proof of a search result's quality.
struct SearchProof {
  /// No contiguous cut is better: all were examined, or the result meets a lower bound.
  bool isExact = false;
  SearchEnd end = SearchEnd::Complete;
  /// Downsets examined; 0 if there were too many, so that only linear orders were examined.
  uint64_t downsets = 0;

  /// `exact: 1,428 downsets`, or `linearised: more than 200,000 downsets`.
  std::string describe(const SearchLimits &limits) const;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_GRAPH_SEARCHLIMITS_H
