//===- AddOptimizer.h - A training step of a loss and gradients -*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H
#define CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H

#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <optional>

namespace cleave {

/// Hyperparameters, named as in torch.optim. Those that the optimizer does not have are ignored; the defaults
/// are AdamW's.
struct OptimizerOptions {
  Optimizer optimizer = Optimizer::AdamW;
  double weightDecay = 0.01;
  /// Of Sgd.
  double momentum = 0;
  bool nesterov = false;
  /// Of Adam and AdamW.
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  /// By name of a parameter: weight decay applies to it. Asked for each alias of a tied one, too; one false
  /// exempts it.
  std::function<bool(llvm::StringRef)> usesWeightDecay = [](llvm::StringRef) { return true; };
  /// The global L2 norm to which gradients are clipped, as torch.nn.utils.clip_grad_norm_ does; nullopt: they
  /// are not.
  std::optional<double> clipNorm;
  /// Number of pipeline ranks: stage s is on rank s mod `ranks`. 0: as many as stages.
  unsigned ranks = 0;
};

/// Reads `adamw` or `sgd(momentum=0.9, nesterov=true)`: a name, and what differs from the defaults of
/// torch.optim. Fails with what was found and expected.
llvm::Expected<OptimizerOptions> parseOptimizer(llvm::StringRef text);

/// Turns a function with sums of its gradients (accumulateGradients) into a training step: operations of the
/// phase `update` read the sums and update the weights.
///
/// Adds the inputs `learning_rate` and `step` (ir/autograd/StepInputs.h). The results become `loss`, computed
/// with the weights before the update, and `grad_norm` (float32), the global L2 norm before clipping. With
/// kSplitBatchAttr both are of the whole batch. If loss or norm is not finite, no weight and no optimizer
/// state changes. Types of the new operations are unknown until `infer-types` has run; those of the sums must
/// be known.
///
/// Where operations have stages (kStageIndexAttr), each pipeline rank updates its copy of a weight once, in
/// the first of its stages that uses it; optimizer states of a tied weight are called `NAME@STAGE` on all
/// ranks but the first. The stages add the squares of their norms to one sum, in the phase `norm`. Loss and
/// norm are those of the stage that makes the loss.
///
/// Fails with a diagnostic if there is no sum of a loss.
mlir::LogicalResult addOptimizer(mlir::func::FuncOp function, const OptimizerOptions &options);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_ADDOPTIMIZER_H
