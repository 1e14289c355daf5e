//===- PlanFacts.h - What follows from a plan -------------------*- C++ -*-===//
//
// The plan's tables say each thing once; these functions put together what a reader asks for. Plans are
// valid.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLANFACTS_H
#define CLEAVE_CODEGEN_PLAN_PLANFACTS_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A call between the ranks of a tensor group, which each micro-batch makes once.
struct CollectiveFact {
  std::string kind, path;
  uint32_t stage;
  /// Of what one rank gives, at the traced sizes; nothing where they are not known.
  std::optional<int64_t> bytes;
};

/// Those of tensor rank 0, in program order.
std::vector<CollectiveFact> collectivesOf(const plan::Plan &plan);

/// Per weight: the stages whose programs use it, ascending.
std::vector<std::vector<uint32_t>> stagesOfWeights(const plan::Plan &plan);

/// Bytes of the weights that one device of each stage holds for it.
std::vector<int64_t> weightBytesOfStages(const plan::Plan &plan);

/// What a stage does of one module and holds for it, without the module's submodules.
struct ModuleShare {
  /// The empty one is the model itself; every call of a shared module counts to the one path.
  std::string path;
  uint32_t ops = 0;
  int64_t weightBytes = 0;
};
/// Per stage: its modules in program order, those that only hold weights last. Operations are those of the
/// first signature, and sum to Stage.ops as weights do to weightBytesOfStages.
std::vector<std::vector<ModuleShare>> modulesOfStages(const plan::Plan &plan);

/// What the symbols of a signature are in its largest micro-batch, traced.
std::vector<int64_t> microbatchSizes(const plan::Plan &plan, uint32_t signature);

/// Bytes of the values of a transfer where the signature's symbols have the sizes `symbols`; values of
/// unknown type count nothing.
int64_t bytesOf(const plan::Plan &plan, uint32_t signature, const plan::Transfer &transfer,
                llvm::ArrayRef<int64_t> symbols);

/// Bytes of what is in the slot where the symbols have the sizes `symbols`; nothing when that is not known.
std::optional<int64_t> bytesOfSlot(const plan::Program &program, uint32_t slot,
                                   llvm::ArrayRef<int64_t> symbols);

/// Each dimension as `inspect` shows it: `768`, `batch`, `seq + 1`, `?`.
std::vector<std::string> dimensionsOf(const plan::Signature &signature, const plan::TensorType &type);

/// Of the tensor rank that takes most memory; null when the plan predicts nothing for the stage.
const plan::Prediction *predictionOf(const plan::Plan &plan, uint32_t stage);
/// Of one tensor rank.
const plan::Prediction *predictionOf(const plan::Plan &plan, uint32_t stage, uint32_t tensorRank);

/// The first schedule of a signature.
const plan::Schedule &scheduleOf(const plan::Plan &plan, uint32_t signature);

/// Share of the ranks' time in which they wait while one request has them to itself and all stages take
/// equally long: (p-1) / (v m + p-1) for p ranks of v stages and m micro-batches (Narayanan et al. 2021).
double bubbleByFormula(const plan::Plan &plan, int64_t microbatches);

/// `cpu:0`; what the machine that the plan was compiled for calls the rank's device.
std::string deviceOf(const plan::Plan &plan, uint32_t rank);

/// Bytes that the rank's device has; nothing where that is not known, or not limited.
std::optional<int64_t> memoryLimitOf(const plan::Plan &plan, uint32_t rank);

/// How even the predicted seconds of the stages are.
struct Balance {
  double slowest = 0, mean = 0;
  /// slowest / mean; 1 is even.
  double ratio() const { return mean > 0 ? slowest / mean : 1; }
};
/// Nothing when a stage has no prediction.
std::optional<Balance> balanceOf(const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_CODEGEN_PLAN_PLANFACTS_H
