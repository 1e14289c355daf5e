//===- RankSet.h - What requests of a signature have in common ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_RANKSET_H
#define CLEAVE_RUNTIME_SCHEDULE_RANKSET_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/LocalExchange.h"
#include "runtime/schedule/Rank.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::runtime {

/// The way of a signature's requests through the ranks of this process.
struct RankSet {
  /// `plan` must outlive the result.
  RankSet(const plan::Plan &plan, uint32_t signature, llvm::ArrayRef<std::unique_ptr<Rank>> ranks);

  /// How the ranks of one request of so many micro-batches reach each other, as threads.
  std::shared_ptr<Exchange> connect(uint32_t microbatches, CancellationToken &cancellation) const;

  const plan::Plan &plan;
  /// Of one micro-batch of each data rank, of all tensor ranks.
  size_t transfers;
  /// The ranks that take part, by their place among those of this process, and their numbers.
  std::vector<size_t> places;
  std::vector<uint32_t> ranks;
  /// Whether one of them reads an input.
  bool readsInputs = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_RANKSET_H
