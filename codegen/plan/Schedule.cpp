//===- Schedule.cpp - What flows between programs, and when ---------------===//
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/STLExtras.h"
#include <map>

namespace cleave::plan {

/// Calls `add` with each input of the signature's programs on tensor-parallel rank 0 that is a result of
/// another program.
static void
forEachFlow(const Plan &plan, uint32_t signature,
            llvm::function_ref<void(const Program &program, const ProgramInput &input, uint32_t index)> add) {
  for (const auto &program : plan.programs)
    if (program->signature == signature && program->tp_rank == 0)
      for (auto [index, input] : llvm::enumerate(program->inputs))
        if (input->source == Source::Stage)
          add(*program, *input, index);
}

std::vector<Transfer> transfers(const Plan &plan, uint32_t signature, Phase phase) {
  std::map<std::pair<uint32_t, uint32_t>, Transfer> byStages;
  forEachFlow(plan, signature, [&](const Program &program, const ProgramInput &input, uint32_t index) {
    if (input.phase != phase || program.phase != phase || input.stage == program.stage)
      return;
    Transfer &transfer = byStages[{input.stage, program.stage}];
    transfer.from = input.stage;
    transfer.to = program.stage;
    transfer.phase = phase;
    transfer.results.push_back(input.index);
    transfer.inputs.push_back(index);
  });
  std::vector<Transfer> ordered;
  for (auto &[stages, transfer] : byStages)
    ordered.push_back(std::move(transfer));
  return ordered;
}

std::vector<Stash> stashes(const Plan &plan, uint32_t signature) {
  std::map<std::pair<ProgramKey, ProgramKey>, Stash> byPrograms;
  forEachFlow(plan, signature, [&](const Program &program, const ProgramInput &input, uint32_t index) {
    if (input.stage != program.stage)
      return;
    Stash &stash = byPrograms[{{input.stage, input.phase}, {program.stage, program.phase}}];
    stash.stage = program.stage;
    stash.from = input.phase;
    stash.to = program.phase;
    stash.results.push_back(input.index);
    stash.inputs.push_back(index);
  });
  std::vector<Stash> ordered;
  for (auto &[programs, stash] : byPrograms)
    ordered.push_back(std::move(stash));
  return ordered;
}

std::set<uint32_t> bucketsOfNorm(const Plan &plan, uint32_t signature) {
  std::set<uint32_t> sums, found;
  for (const auto &program : plan.programs)
    if (program->signature == signature && program->phase == Phase::Norm)
      for (const auto &block : program->blocks)
        for (const auto &instruction : block->instructions)
          if (instruction->kind == InstructionKind::StateAccumulate)
            sums.insert(instruction->op);
  for (auto [index, bucket] : llvm::enumerate(plan.buckets))
    for (const auto &part : bucket->parts)
      if (llvm::any_of(part->states, [&](uint32_t state) { return sums.count(state) != 0; }))
        found.insert(index);
  return found;
}

ActionKind counterpartOf(ActionKind kind) {
  switch (kind) {
  case ActionKind::Send:
    return ActionKind::Recv;
  case ActionKind::Recv:
    return ActionKind::Send;
  case ActionKind::SendGrad:
    return ActionKind::RecvGrad;
  default:
    return ActionKind::SendGrad;
  }
}

std::string toString(const Action &action) {
  static constexpr const char *kNames[] = {"F", "B", "W", "N", "U", "S", "R", "SG", "RG", "A"};
  std::string text = kNames[static_cast<size_t>(action.kind)] + std::to_string(action.stage);
  if (action.kind == ActionKind::Reduce)
    return text + ":" + std::to_string(action.bucket);
  if (isOnce(action.kind))
    return text;
  text += "." + std::to_string(action.microbatch);
  if (isTransport(action.kind))
    text += (isSend(action.kind) ? ">" : "<") + std::to_string(action.peer_stage);
  return text;
}

} // namespace cleave::plan
