//===- CutCache.h - Cached cuts of one graph --------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H
#define CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H

#include "partitioner/cutting/StageCutter.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <list>

namespace cleave {

/// Cuts of one graph; each request is searched once.
class CutCache {
public:
  /// The result of `cutStages`. The cut lives as long as the cache.
  /// \param graph  gives the same graph on every call; called only for a request that is not cached.
  llvm::Expected<const StageCut *> cut(llvm::function_ref<const StageGraph &()> graph,
                                       const CutRequest &request);
  llvm::Expected<const StageCut *> cut(const StageGraph &graph, const CutRequest &request) {
    return cut([&]() -> const StageGraph & { return graph; }, request);
  }

private:
  struct Found {
    CutRequest request;
    StageCut cut;
    /// Why no cut was found; empty if one was.
    std::string failure;
    /// The search was interrupted, so that its result depends on timing.
    bool wasInterrupted = false;
    bool answers(const CutRequest &other) const;
  };
  std::list<Found> all;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H
