//===- RankSet.h - The ranks that execute a signature -----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_RANKSET_H
#define CLEAVE_RUNTIME_SCHEDULE_RANKSET_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/LocalExchange.h"
#include "runtime/schedule/Rank.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace cleave::runtime {

/// Ranks of this process that take part in the requests of one signature.
struct RankSet {
  /// `plan` must outlive the result.
  RankSet(const plan::Plan &plan, uint32_t signature, llvm::ArrayRef<std::unique_ptr<Rank>> ranks);

  /// The exchange between the ranks, as threads, for one request of `microbatches` micro-batches.
  std::shared_ptr<Exchange> connect(uint32_t microbatches, CancellationToken &cancellation) const;

  const plan::Plan &plan;
  /// The groups of these ranks, by their index in the plan.
  std::map<uint32_t, std::vector<uint32_t>> groups;
  /// Number of transfers per micro-batch index, over all data- and tensor-parallel ranks.
  size_t transfers;
  /// The ranks that take part: their indices among the ranks of this process, and their numbers in the plan.
  std::vector<size_t> localIndices;
  std::vector<uint32_t> ranks;
  /// True if one of them reads an input.
  bool readsInputs = false;
  /// True if requests of the signature continue sequences.
  bool usesSequences;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_RANKSET_H
