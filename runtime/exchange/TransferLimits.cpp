//===- TransferLimits.cpp - Limits of messages from other ranks -----------===//
#include "runtime/exchange/TransferLimits.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "runtime/device/PlanRanks.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace cleave::runtime {

/// Bytes of the widest dtype. Actual dtypes depend on autocast.
static constexpr uint64_t kWidest = 16;

/// Adds the size of a tensor of `type`; null: a type that is not known.
static void add(const plan::TensorType *type, SerializedLimits &limits) {
  const uint64_t memory = machineMemory();
  uint64_t bytes = kWidest;
  const bool isRanked = type && type->ranked;
  for (size_t dim = 0; isRanked && dim < type->dims.size(); ++dim) {
    const std::optional<int64_t> size = plan::asConstant(*type->dims[dim]);
    if (!size || *size < 0 || __builtin_mul_overflow(bytes, uint64_t(*size), &bytes))
      bytes = memory;
  }
  ++limits.values;
  limits.bytes = std::min(memory, limits.bytes + std::min(memory, isRanked ? bytes : memory));
}

static void widen(SerializedLimits &limits, const SerializedLimits &other) {
  limits.values = std::max(limits.values, other.values);
  limits.bytes = std::max(limits.bytes, other.bytes);
}

static const plan::TensorType *typeOf(const plan::Program &program, uint32_t slot) {
  auto found = llvm::find_if(program.types, [&](const auto &type) { return type->slot == slot; });
  return found == program.types.end() ? nullptr : (*found)->type.get();
}

SerializedLimits limitsOfValues(const plan::Plan &plan, uint32_t from, uint32_t to) {
  SerializedLimits most{0, 0};
  for (const plan::Program *program : programsOf(plan, to))
    for (const plan::Transfer &transfer : plan::transfers(plan, program->signature, program->phase)) {
      if (transfer.to != program->stage || !llvm::is_contained(plan.stages[transfer.from]->ranks, from))
        continue;
      SerializedLimits limits{0, 0};
      for (uint32_t input : transfer.inputs)
        add(typeOf(*program, program->inputs[input]->slot), limits);
      widen(most, limits);
    }
  return most;
}

SerializedLimits limitsOfOutputs(const plan::Plan &plan) {
  SerializedLimits most{0, 0};
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature) {
    SerializedLimits limits{0, 0};
    const uint64_t parts = plan::microbatchesOfAll(plan, scheduleOf(plan, signature));
    SerializedLimits terms{0, 0};
    for (const auto &output : plan.signatures[signature]->outputs)
      add(output->type.get(), output->merge == plan::OutputMerge::Sum ? terms : limits);
    // Each micro-batch sends a part of each output, or a term as large as the output.
    limits.values = (limits.values + terms.values) * parts;
    if (__builtin_mul_overflow(terms.bytes, parts, &terms.bytes))
      terms.bytes = machineMemory();
    limits.bytes = std::min(machineMemory(), limits.bytes + std::min(machineMemory(), terms.bytes));
    widen(most, limits);
  }
  return most;
}

SerializedLimits limitsOfCaptured(const plan::Plan &plan) {
  uint64_t parts = 1;
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature)
    parts = std::max(parts, plan::microbatchesOfAll(plan, scheduleOf(plan, signature)));
  // Types may be unknown.
  return {size_t(plan.capture_points.size() * parts), machineMemory()};
}

SerializedLimits limitsOfCommand(const plan::Plan &plan) {
  SerializedLimits most{0, 0};
  for (const auto &signature : plan.signatures) {
    SerializedLimits limits{0, 0};
    for (const auto &input : signature->inputs)
      add(input->type.get(), limits);
    widen(most, limits);
  }
  // The kind of the command, its signature, its sequence id, and what it captures; then values for capture
  // points.
  most.values += kCommandWords + plan.capture_points.size();
  if (!plan.capture_points.empty())
    most.bytes = machineMemory();
  return most;
}

} // namespace cleave::runtime
