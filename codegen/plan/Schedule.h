//===- Schedule.h - Transfers between stages, and deadlock checks -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_SCHEDULE_H
#define CLEAVE_CODEGEN_PLAN_SCHEDULE_H

#include "codegen/plan/Plan.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace cleave::plan {

/// The values that one stage sends to another within one micro-batch. `inputs[i]` indexes the receiver's
/// program inputs, `results[i]` the sender's program outputs.
struct Transfer {
  uint32_t from, to;
  std::vector<uint32_t> results, inputs;
  bool operator==(const Transfer &) const = default;
};

/// All transfers of a signature, for tensor-parallel rank 0, ordered by sender, then receiver.
std::vector<Transfer> transfers(const Plan &plan, uint32_t signature);

/// Fails if the schedule cannot finish: an action that waits for a later one, a send without its receive, a
/// stage that never runs or runs before its inputs have arrived, gradients that are reduced before the last
/// one is computed. Sends are taken to block until their receive (zero buffering), so a schedule that passes
/// runs on every communicator.
llvm::Error checkSchedule(const Plan &plan, const Schedule &schedule);

/// Coordinates of a rank in the mesh: its tensor-parallel and its data-parallel rank.
uint32_t tpRankOf(const Plan &plan, uint32_t rank);
uint32_t dpRankOf(const Plan &plan, uint32_t rank);

/// Text of an action in `inspect` and traces: `F3.1`, `S2.0>3`, `R3.0<2`.
std::string toString(const Action &action);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SCHEDULE_H
