//===- SearchWatch.h - Progress and stopping of a mesh search ---*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_SEARCHWATCH_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_SEARCHWATCH_H

#include "partitioner/graph/SearchLimits.h"
#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/CompileOptions.h"
#include <chrono>

namespace cleave {

/// `pp=2,tp=2`; with `dp` for training, and for several data-parallel ranks.
std::string meshOf(const Configuration &configuration);

/// Reports the progress of a search and its best result so far (CompileOptions::progress), and stops it on
/// request (CompileOptions::stop). A search has parts; each part yields estimates.
class SearchWatch {
public:
  /// \param options  must outlive the watch.
  explicit SearchWatch(const CompileOptions &options) : options(options) {}
  ~SearchWatch();
  SearchWatch(const SearchWatch &) = delete;
  SearchWatch &operator=(const SearchWatch &) = delete;

  /// Begins a search with this amount of work, without results.
  void begin(size_t work);
  /// Begins a part, such as `tp=2`. False if the search was stopped and must skip it.
  bool beginPart(llvm::StringRef part, size_t work);
  /// Adds an estimate of the current part, with the finished share of the part. False if the search must end.
  bool addEstimate(const Estimate &estimate, double share);
  /// Begins making the best plan. While the result lives, a stop request ends its cut early.
  CancellationScope making(const Configuration &configuration);
  /// True if the search must evaluate nothing more.
  bool isInterrupted();
  /// Notes that the search was stopped, and what it left out.
  std::vector<std::string> notes(llvm::ArrayRef<Estimate> estimates) const;

private:
  void tell(double share) const;

  using Clock = std::chrono::steady_clock;
  const CompileOptions &options;
  const Clock::time_point begun = Clock::now();
  std::string part;
  std::vector<std::string> leftOut;
  std::optional<Estimate> best;
  /// Amounts of work: in total, before the current part, in the current part.
  size_t all = 0, before = 0, inPart = 0;
  bool isMaking = false;
  std::optional<double> interruptedAfter;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_SEARCHWATCH_H
