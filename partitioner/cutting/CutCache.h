//===- CutCache.h - Cuts of one graph ---------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H
#define CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H

#include "partitioner/cutting/StageCutter.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <list>

namespace cleave {

/// Cuts of one graph, each sought once.
class CutCache {
public:
  /// What `cutStages` gives, which lives as long as this.
  /// \param graph  gives the same each time; asked for where the cut is not known.
  llvm::Expected<const StageCut *> cut(llvm::function_ref<const StageGraph &()> graph,
                                       const CutRequest &request);
  llvm::Expected<const StageCut *> cut(const StageGraph &graph, const CutRequest &request) {
    return cut([&]() -> const StageGraph & { return graph; }, request);
  }

private:
  struct Found {
    CutRequest request;
    StageCut cut;
    /// Why there is none; empty where there is one.
    std::string failure;
    /// It was interrupted.
    bool isLuck = false;
    bool answers(const CutRequest &other) const;
  };
  std::list<Found> all;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_CUTTING_CUTCACHE_H
