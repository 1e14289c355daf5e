//===- SearchWatch.h - A search for a mesh, from outside --------*- C++ -*-===//
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

/// `pp=2,tp=2`; with `dp` of training, and of several data ranks.
std::string meshOf(const Configuration &configuration);

/// Says how far a search is and the best so far (CompileOptions::progress), and is asked whether it is to end
/// (CompileOptions::stop). A search has parts, and each of these estimates.
class SearchWatch {
public:
  /// \param options  must outlive it.
  explicit SearchWatch(const CompileOptions &options) : options(options) {}
  ~SearchWatch();
  SearchWatch(const SearchWatch &) = delete;
  SearchWatch &operator=(const SearchWatch &) = delete;

  /// Nothing has been found yet, and there is so much to do.
  void begin(size_t work);
  /// `part`, such as `tp=2`, begins. False where the search has been ended, and it is not to be weighed.
  bool beginPart(llvm::StringRef part, size_t work);
  /// Of the part, with the share of it that is done; false where the search is to end.
  bool sees(const Estimate &estimate, double share);
  /// The best is made; while the result lives, its cut ends early.
  CancellationScope making(const Configuration &configuration);
  /// Nothing more is to be weighed.
  bool isInterrupted();
  /// That it was interrupted, and what that has left out.
  std::vector<std::string> notes(llvm::ArrayRef<Estimate> estimates) const;

private:
  void tell(double share) const;

  using Clock = std::chrono::steady_clock;
  const CompileOptions &options;
  const Clock::time_point begun = Clock::now();
  std::string part;
  std::vector<std::string> leftOut;
  std::optional<Estimate> best;
  /// What there is to do, was done before the part, and is in it.
  size_t all = 0, before = 0, inPart = 0;
  bool isMaking = false;
  std::optional<double> interruptedAfter;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_SEARCHWATCH_H
