//===- PlanRanks.cpp ------------------------------------------------------===//
#include "runtime/device/PlanRanks.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/Schedule.h"
#include "runtime/device/DeviceWorker.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::runtime {

using llvm::Error;
using llvm::Twine;

static Error unsupported(const Twine &found, const Twine &expected) {
  return llvm::createStringError("plan has " + found + ", but this version runs " + expected + " only");
}

static Error checkSchedule(const plan::Schedule &schedule) {
  if (schedule.slices != 1)
    return unsupported(Twine(schedule.slices) + " sequence slices", "one slice");
  return Error::success();
}

Error checkSupported(const plan::Plan &plan) {
  for (const auto &schedule : plan.schedules)
    if (Error error = checkSchedule(*schedule))
      return error;
  return Error::success();
}

/// Fails if the ranks of a group are on devices between which no collective runs.
static Error checkGroup(const plan::Group &group, llvm::ArrayRef<std::string> names) {
  const uint32_t first = group.ranks.front();
  for (uint32_t rank : group.ranks)
    if (isGpu(names[rank]) != isGpu(names[first]))
      return llvm::createStringError("ranks " + Twine(first) + " and " + Twine(rank) +
                                     " exchange tensors in one group on " + names[first] + " and " +
                                     names[rank] +
                                     "; pass --devices with CPUs only, or GPUs only, for its ranks");
  return Error::success();
}

/// Ranks of different stages or data-parallel ranks exchange tensors in groups only in training.
static bool hasCollectives(const plan::Plan &plan, const plan::Group &group) {
  return group.kind == plan::GroupKind::Tensor || llvm::any_of(plan.programs, [](const auto &program) {
           return program->phase != plan::Phase::Forward;
         });
}

llvm::Expected<std::vector<std::string>> expandDevices(std::vector<std::string> names, size_t ranks,
                                                       const std::optional<Launch> &launch) {
  if (names != std::vector<std::string>{"cuda"})
    return names;
  if (launch && !launch->localRank)
    return llvm::createStringError(
        "device cuda: found no place of this process on its machine (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, "
        "SLURM_LOCALID or MPI_LOCALRANKID, as its launcher has it), by which it has a GPU; pass --devices "
        "with "
        "an entry a rank: cuda:0,cuda:1");
  names.clear();
  for (size_t rank = 0; rank < ranks; ++rank)
    names.push_back("cuda:" + std::to_string(launch ? *launch->localRank : rank));
  return names;
}

Error checkDevices(const plan::Plan &plan, llvm::ArrayRef<std::string> names) {
  // A wrong number of names is reported elsewhere.
  if (names.size() != rankCount(plan))
    return Error::success();
  for (const auto &group : plan.groups)
    if (hasCollectives(plan, *group))
      if (Error error = checkGroup(*group, names))
        return error;
  return Error::success();
}

size_t rankCount(const plan::Plan &plan) { return plan::rankCount(*plan.mesh); }

uint32_t peerOf(const plan::Plan &plan, uint32_t rank, const plan::Action &action) {
  const auto &own = plan.stages[action.stage]->ranks, &others = plan.stages[action.peer_stage]->ranks;
  return others[llvm::find(own, rank) - own.begin()];
}

bool producesOutput(const plan::Plan &plan, uint32_t rank, uint32_t signature, uint32_t leaf) {
  const plan::Signature &own = *plan.signatures[signature];
  const plan::Output &output = *own.outputs[leaf];
  const bool isShared = output.merge == plan::OutputMerge::Sum ||
                        (own.batch >= 0 && plan::batchDimension(*output.type, own.batch));
  return llvm::is_contained(plan.stages[output.stage]->ranks, rank) && plan::tpRankOf(plan, rank) == 0 &&
         (isShared || plan::dpRankOf(plan, rank) == 0);
}

std::vector<const plan::Program *> programsOf(const plan::Plan &plan, uint32_t rank) {
  std::vector<const plan::Program *> programs;
  for (const auto &program : plan.programs)
    if (program->tp_rank == plan::tpRankOf(plan, rank) &&
        llvm::is_contained(plan.stages[program->stage]->ranks, rank))
      programs.push_back(program.get());
  return programs;
}

bool readsInputs(const plan::Plan &plan, uint32_t rank, uint32_t signature) {
  return llvm::any_of(programsOf(plan, rank), [&](const plan::Program *program) {
    return program->signature == signature && llvm::any_of(program->inputs, [](const auto &input) {
             return input->source == plan::Source::Request;
           });
  });
}

} // namespace cleave::runtime
