//===- TrainingStep.h - What a training step takes and gives ----*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_TRAININGSTEP_H
#define CLEAVE_CODEGEN_PLAN_TRAININGSTEP_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace cleave::plan {

/// Roles of the inputs of a training step that are none of the model; ir/autograd/StepInputs.h says what they
/// hold.
inline constexpr llvm::StringLiteral kLearningRateRole = "learning_rate", kStepRole = "step",
                                     kRandomKeyRole = "random_key", kSampleIndexRole = "sample_index";

inline bool isStepInput(const Input &input) {
  return llvm::is_contained({kLearningRateRole, kStepRole, kRandomKeyRole, kSampleIndexRole}, input.role);
}

/// Names of the outputs of a training step: the loss, and the global norm of its gradients before clipping.
inline constexpr llvm::StringLiteral kLossOutput = "loss", kGradNormOutput = "grad_norm";

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_TRAININGSTEP_H
