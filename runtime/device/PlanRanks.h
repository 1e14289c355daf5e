//===- PlanRanks.h - What of a plan belongs to a rank -----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_PLANRANKS_H
#define CLEAVE_RUNTIME_DEVICE_PLANRANKS_H

#include "codegen/plan/Plan.h"
#include "runtime/base/Launch.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Fails on plans that this runtime cannot execute, naming the property that it lacks.
llvm::Error checkSupported(const plan::Plan &plan);

/// `cuda` alone names a GPU for each of `ranks`: for a process the one of its place on its machine, which is
/// what all ranks then have here, else `cuda:0` and those that follow. Other names stay.
llvm::Expected<std::vector<std::string>> expandDevices(std::vector<std::string> names, size_t ranks,
                                                       const std::optional<Launch> &launch);

/// Fails on devices, by their names, that the plan cannot run on in one process.
llvm::Error checkDevices(const plan::Plan &plan, llvm::ArrayRef<std::string> names);

/// How many ranks the plan was compiled for.
size_t rankCount(const plan::Plan &plan);

/// The rank with which `rank` exchanges what `action`, a Send or Recv, moves: the one at its own place in the
/// other stage.
uint32_t peerOf(const plan::Plan &plan, uint32_t rank, const plan::Action &action);

/// Whether `rank` has leaf `leaf` of the outputs of `signature`, or a part of it: the first tensor rank of
/// each data rank gives what its micro-batches make, and of what has no batch only that of the first data
/// rank.
bool givesOutput(const plan::Plan &plan, uint32_t rank, uint32_t signature, uint32_t leaf);

/// The programs that `rank` runs, all signatures, in the order of the plan.
std::vector<const plan::Program *> programsOf(const plan::Plan &plan, uint32_t rank);

/// Whether `rank` reads what is in the inputs of `signature`, not only their sizes.
bool readsInputs(const plan::Plan &plan, uint32_t rank, uint32_t signature);

/// The schedule of `signature`.
const plan::Schedule &scheduleOf(const plan::Plan &plan, uint32_t signature);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_PLANRANKS_H
