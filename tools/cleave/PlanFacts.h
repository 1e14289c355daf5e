//===- PlanFacts.h - What follows from a plan -------------------*- C++ -*-===//
//
// The plan's tables say each thing once; these functions put together what a reader asks for. Plans are
// valid.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_PLANFACTS_H
#define CLEAVE_TOOLS_CLEAVE_PLANFACTS_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// Per weight: the stages whose programs use it, ascending.
std::vector<std::vector<uint32_t>> stagesOfWeights(const plan::Plan &plan);

/// Bytes of the weights that one device of each stage holds for it.
std::vector<int64_t> weightBytesOfStages(const plan::Plan &plan);

/// Bytes of the values of a transfer at the traced sizes; values of unknown type count nothing.
int64_t bytesOf(const plan::Plan &plan, uint32_t signature, const plan::Transfer &transfer);

/// Bytes of what is in the slot, at the traced sizes; nothing when its type is not known.
std::optional<int64_t> bytesOfSlot(const plan::Plan &plan, const plan::Program &program, uint32_t slot);

/// Each dimension as `inspect` shows it: `768`, `batch`, `seq + 1`, `?`.
std::vector<std::string> dimensionsOf(const plan::Signature &signature, const plan::TensorType &type);

/// Null when the plan predicts nothing for the stage.
const plan::Prediction *predictionOf(const plan::Plan &plan, uint32_t stage);

/// The first schedule of a signature.
const plan::Schedule &scheduleOf(const plan::Plan &plan, uint32_t signature);

/// `cpu:0`.
std::string deviceOf(uint32_t rank);

/// How even the predicted seconds of the stages are.
struct Balance {
  double slowest = 0, mean = 0;
  /// slowest / mean; 1 is even.
  double ratio() const { return mean > 0 ? slowest / mean : 1; }
};
/// Nothing when a stage has no prediction.
std::optional<Balance> balanceOf(const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PLANFACTS_H
