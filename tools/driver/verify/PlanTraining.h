//===- PlanTraining.h - What a plan says of its training --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_PLANTRAINING_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_PLANTRAINING_H

#include "codegen/plan/Plan.h"
#include "tools/driver/base/CompileOptions.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A training step of a plan: its optimizer, and where its signature has the model's inputs.
struct PlanTraining {
  struct Weight {
    std::string name;
    std::vector<std::string> aliases;
    plan::OptimizerConfig optimizer;
  };
  /// In the order of the updates.
  std::vector<Weight> weights;
  /// The global norm to which gradients are clipped.
  std::optional<double> clipNorm;
  /// Indices of the signature's inputs and outputs.
  size_t learningRateInput = 0, stepInput = 0, lossOutput = 0, gradNormOutput = 0;
  /// The part of the signature's input tree that holds the model's inputs; owned by the plan.
  const plan::Tree *inputTree = nullptr;

  bool usesAdam() const { return weights.front().optimizer.optimizer != plan::Optimizer::Sgd; }
  /// Replaces optimizers and clipping by those that `compile` was asked for.
  llvm::Error setOptions(const UpdateOptions &options);
};

/// Nothing for a plan that does not train. Fails on one whose training is not as `compile --train` makes it.
llvm::Expected<std::optional<PlanTraining>> trainingOf(const plan::Plan &plan);

/// Names of the states that are attributes of the model: those that neither an optimizer keeps nor a step
/// sums.
std::vector<std::string> modelStates(const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_PLANTRAINING_H
