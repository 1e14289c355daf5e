//===- Schedule.h - What flows between programs, and when -------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_SCHEDULE_H
#define CLEAVE_CODEGEN_PLAN_SCHEDULE_H

#include "codegen/plan/Groups.h"
#include "codegen/plan/Plan.h"
#include "llvm/Support/Error.h"
#include <compare>
#include <set>
#include <vector>

namespace cleave::plan {

/// A program of a signature on one tensor-parallel rank.
struct ProgramKey {
  uint32_t stage;
  Phase phase = Phase::Forward;
  auto operator<=>(const ProgramKey &) const = default;
};

/// The values that stage `from` sends to stage `to` within one micro-batch: activations between their forward
/// programs (`phase` Forward), or gradients between their backward programs (BackwardInput). `inputs[i]`
/// indexes the receiver's program inputs, `results[i]` the sender's program outputs.
struct Transfer {
  uint32_t from, to;
  std::vector<uint32_t> results, inputs;
  Phase phase = Phase::Forward;
  ProgramKey source() const { return {from, phase}; }
  ProgramKey target() const { return {to, phase}; }
  bool operator==(const Transfer &) const = default;
};

/// The values that one program of a stage leaves to a later phase of the same stage: its part of the stash.
struct Stash {
  uint32_t stage;
  Phase from, to;
  std::vector<uint32_t> results, inputs;
};

/// All transfers of a signature in a phase, for tensor-parallel rank 0, ordered by sender, then receiver.
std::vector<Transfer> transfers(const Plan &plan, uint32_t signature, Phase phase = Phase::Forward);

/// All stashes of a signature, for tensor-parallel rank 0.
std::vector<Stash> stashes(const Plan &plan, uint32_t signature);

inline bool isSend(ActionKind kind) { return kind == ActionKind::Send || kind == ActionKind::SendGrad; }
inline bool isReceive(ActionKind kind) { return kind == ActionKind::Recv || kind == ActionKind::RecvGrad; }
inline bool isTransport(ActionKind kind) { return isSend(kind) || isReceive(kind); }
/// The phase of the transfer that a send or receive belongs to.
inline Phase phaseOfTransport(ActionKind kind) {
  return kind == ActionKind::Send || kind == ActionKind::Recv ? Phase::Forward : Phase::BackwardInput;
}
/// The kind with which the other end answers a send or receive.
ActionKind counterpartOf(ActionKind kind);

/// True for phases and actions that run once a request. The others run once for each micro-batch.
inline bool isOnce(Phase phase) { return phase == Phase::Norm || phase == Phase::Update; }

/// True for actions that run a program, and the phase of that program.
inline bool isCompute(ActionKind kind) { return kind <= ActionKind::Update; }
inline Phase phaseOf(ActionKind kind) { return static_cast<Phase>(kind); }
inline bool isOnce(ActionKind kind) {
  return kind == ActionKind::Reduce || (isCompute(kind) && isOnce(phaseOf(kind)));
}

/// The buckets with sums that the signature's programs of the phase Norm add to. They are reduced between
/// Norm and Update, all others before Norm.
std::set<uint32_t> bucketsOfNorm(const Plan &plan, uint32_t signature);

/// Fails if the schedule cannot finish: an action that waits for a later one, a send without its receive, a
/// program that never runs or runs before its inputs have arrived, sums that are reduced before the last term
/// is added, that are read or weights that are updated before they are reduced, ranks that reduce in
/// different orders. Sends are taken to block until their receive (zero buffering), so a schedule that passes
/// runs on every communicator.
llvm::Error checkSchedule(const Plan &plan, const Schedule &schedule);

/// Text of an action in `inspect` and traces: `F3.1`, `B3.1`, `W3.1`, `N3`, `U3`, `S2.0>3`, `R3.0<2`,
/// `SG3.0>2`, `RG2.0<3`, `A3:0` (all-reduces the part of stage 3 in bucket 0).
std::string toString(const Action &action);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SCHEDULE_H
