//===- Schedule.h - Which values flow between stages, and deadlocks -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_SCHEDULE_H
#define CLEAVE_CODEGEN_PLAN_SCHEDULE_H

#include "codegen/plan/Plan.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace cleave::plan {

/// The values that one stage gives another within one micro-batch. `inputs[i]` indexes the receiver's program
/// inputs, `results[i]` the sender's program outputs.
struct Transfer {
  uint32_t from, to;
  std::vector<uint32_t> results, inputs;
  bool operator==(const Transfer &) const = default;
};

/// All transfers of a signature (tensor rank 0), ordered by sender, then receiver.
std::vector<Transfer> transfers(const Plan &plan, uint32_t signature);

/// Fails where the schedule cannot finish: an action that waits for one that comes later, a send without its
/// receive, a stage that never runs or runs before its inputs came, gradients that are reduced before the
/// last of them. Sends are taken to wait for their receive (zero buffering), so what passes here runs on
/// every communicator.
llvm::Error checkSchedule(const Plan &plan, const Schedule &schedule);

/// Which rank of its tensor group, and which of the groups that have its stages, `rank` is.
uint32_t tensorRankOf(const Plan &plan, uint32_t rank);
uint32_t dataRankOf(const Plan &plan, uint32_t rank);

/// Names as they stand in `inspect` and traces: `F3.1`, `S2.0>3`, `R3.0<2`.
std::string toString(const Action &action);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SCHEDULE_H
