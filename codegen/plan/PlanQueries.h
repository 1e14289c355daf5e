//===- PlanQueries.h - Queries on a plan ------------------------*- C++ -*-===//
//
// The plan's tables say each thing once; these functions derive what readers ask for. Plans must be valid.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLANQUERIES_H
#define CLEAVE_CODEGEN_PLAN_PLANQUERIES_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A collective in a tensor-parallel group, called once per micro-batch.
struct CollectiveInfo {
  std::string kind, path;
  uint32_t stage;
  /// Bytes of one rank's operand at the example sizes; nothing if unknown.
  std::optional<int64_t> bytes;
};

/// Collectives of tensor-parallel rank 0, in program order.
std::vector<CollectiveInfo> collectivesOf(const plan::Plan &plan);

/// True if a program of the signature reads or writes a state of the scope Sequence.
bool usesSequences(const plan::Plan &plan, uint32_t signature);

/// Where several stages update a tied weight, each with states of its own, which are always equal: by state
/// of a later stage, that of the first.
std::map<uint32_t, uint32_t> copiedStates(const plan::Plan &plan);

/// By weight: the stages whose programs use it, ascending.
std::vector<std::vector<uint32_t>> stagesOfWeights(const plan::Plan &plan);

/// By stage: bytes of its weights on its first rank.
std::vector<int64_t> weightBytesOfStages(const plan::Plan &plan);

/// A module's share of a stage, without the module's submodules.
struct ModuleShare {
  /// Empty for the model itself. All calls of a shared module count under one path.
  std::string path;
  uint32_t ops = 0;
  int64_t weightBytes = 0;
};
/// By stage: its modules in program order; modules that only hold weights come last. Operations are those of
/// the first signature; they sum to Stage.ops, and weights to weightBytesOfStages.
std::vector<std::vector<ModuleShare>> modulesOfStages(const plan::Plan &plan);

/// By symbol of a signature: its size in the largest micro-batch of the example inputs.
std::vector<int64_t> microbatchSizes(const plan::Plan &plan, uint32_t signature);

/// Bytes of a transfer's values for symbols of these sizes; a value of unknown type counts 0.
int64_t bytesOf(const plan::Plan &plan, uint32_t signature, const plan::Transfer &transfer,
                llvm::ArrayRef<int64_t> symbols);

/// Bytes of the slot's value for symbols of these sizes; nothing if unknown.
std::optional<int64_t> bytesOfSlot(const plan::Program &program, uint32_t slot,
                                   llvm::ArrayRef<int64_t> symbols);

/// By dimension: its text in `inspect`, such as `768`, `batch`, `seq + 1`, `?`.
std::vector<std::string> dimensionsOf(const plan::Signature &signature, const plan::TensorType &type);

/// Prediction for the tensor-parallel rank that takes most memory; null if the plan predicts nothing for the
/// stage.
const plan::Prediction *predictionOf(const plan::Plan &plan, uint32_t stage);
/// Prediction for one tensor-parallel rank.
const plan::Prediction *predictionOf(const plan::Plan &plan, uint32_t stage, uint32_t tpRank);

/// `h.1` for `h#2.1`, the path of a second call.
std::string withoutCalls(llvm::StringRef path);

/// The features that a plan uses (Plan.required_features), in alphabetical order.
std::vector<std::string> requiredFeatures(const plan::Plan &plan);

/// The schedule of `signature`; its first one, if it has several.
const plan::Schedule &scheduleOf(const plan::Plan &plan, uint32_t signature);

/// The pipeline's bubble fraction for one request at a time and equal stages: (p-1) / (v m + p-1) for p ranks
/// of v stages and m micro-batches (Narayanan et al. 2021).
double bubbleByFormula(const plan::Plan &plan, int64_t microbatches);

/// Name of the rank's device in the machine that the plan was compiled for, such as `cpu:0`.
std::string deviceOf(const plan::Plan &plan, uint32_t rank);

/// Memory of the rank's device, in bytes; nothing if unknown or not limited.
std::optional<int64_t> memoryLimitOf(const plan::Plan &plan, uint32_t rank);

/// Balance of the predicted seconds of the stages.
struct Balance {
  double slowest = 0, mean = 0;
  /// slowest / mean; 1 if the stages are even.
  double ratio() const { return mean > 0 ? slowest / mean : 1; }
};
/// Nothing if a stage has no prediction.
std::optional<Balance> balanceOf(const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_CODEGEN_PLAN_PLANQUERIES_H
