//===- AddOptimizer.h - A training step of a loss and gradients -*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H
#define CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H

#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <optional>

namespace cleave {

/// What inputs of a training step mean (kRoleAttr), and their names.
inline constexpr llvm::StringLiteral kLearningRateRole = "learning_rate", kStepRole = "step";

/// Of torch.optim; those that an optimizer does not have are ignored.
struct OptimizerOptions {
  Optimizer optimizer = Optimizer::AdamW;
  double weightDecay = 0.01;
  /// Of Sgd.
  double momentum = 0;
  bool nesterov = false;
  /// Of Adam and AdamW.
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  /// By name of a weight: weightDecay applies to it.
  std::function<bool(llvm::StringRef)> decays = [](llvm::StringRef) { return true; };
  /// Gradients whose norm, over all of them, is larger are divided so that this is their norm, as
  /// torch.nn.utils.clip_grad_norm_ does.
  std::optional<double> clipNorm;
};

/// Reads `adamw` or `sgd(momentum=0.9, nesterov=true)`: a name, and what differs from the defaults of
/// torch.optim. Fails with what was found and expected.
llvm::Expected<OptimizerOptions> parseOptimizer(llvm::StringRef text);

/// Makes a training step of a function after `differentiate`: gradients are no results any more, but sums
/// over the micro-batches (`cleave.accumulate "grad.fc.weight"`), of which operations of the phase update
/// change the weights.
///
/// Two numbers in float32 become inputs: `learning_rate`, and `step`, which counts from 1. The results are
/// `loss` and `grad_norm`, the norm over all gradients before it is clipped. If one of these is not
/// finite, the step changes no weight. Types of the new operations are unknown until `infer-types` has run.
///
/// Fails with a diagnostic if no result is marked as the loss, or if no gradient is there.
mlir::LogicalResult addOptimizer(mlir::func::FuncOp function, const OptimizerOptions &options);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H
