//===- PlanRanks.h - What each rank of a plan does --------------*- C++ -*-===//
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

/// Fails on plans that this runtime cannot execute, naming the unsupported property.
llvm::Error checkSupported(const plan::Plan &plan);

/// Replaces the single name `cuda` by one GPU for each of `ranks`: in a process of several, the GPU of its
/// local rank (for all entries); else `cuda:0` and following. Other names stay.
llvm::Expected<std::vector<std::string>> expandDevices(std::vector<std::string> names, size_t ranks,
                                                       const std::optional<Launch> &launch);

/// Fails on devices, by name, on which one process cannot run the plan.
llvm::Error checkDevices(const plan::Plan &plan, llvm::ArrayRef<std::string> names);

/// Number of ranks that the plan was compiled for.
size_t rankCount(const plan::Plan &plan);

/// The other rank of `action`, a send or receive of `rank`: the rank with the same index in the other stage.
uint32_t peerOf(const plan::Plan &plan, uint32_t rank, const plan::Action &action);

/// True if `rank` has leaf `leaf` of the outputs of `signature`, or a part of it: the first tensor-parallel
/// rank of each data-parallel rank has the outputs of its micro-batches. An output without a batch dimension
/// comes from the first data-parallel rank alone.
bool producesOutput(const plan::Plan &plan, uint32_t rank, uint32_t signature, uint32_t leaf);

/// The programs that `rank` runs, of all signatures, in the order of the plan.
std::vector<const plan::Program *> programsOf(const plan::Plan &plan, uint32_t rank);

/// True if `rank` reads the data of `signature`'s inputs, not only their sizes.
bool readsInputs(const plan::Plan &plan, uint32_t rank, uint32_t signature);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_PLANRANKS_H
