//===- Differentiate.h - Gradients as IR ------------------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_DIFFERENTIATE_H
#define CLEAVE_IR_AUTOGRAD_DIFFERENTIATE_H

#include "ir/autograd/LossAttributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <string>

namespace cleave {

/// Of a `cleave.param`: the model does not train it (`requires_grad` is false).
inline constexpr llvm::StringLiteral kFrozenAttr = "cleave.frozen";

struct DerivativeOptions {
  /// Name of the result that is differentiated, one floating-point number, or the end of that name behind a
  /// dot. If empty: the only result, or else `loss`.
  std::string loss;
  /// By name of a parameter that is not frozen: it is trained, so that its gradient is wanted.
  std::function<bool(llvm::StringRef)> isTrainable = [](llvm::StringRef) { return true; };
  /// By name of a floating-point argument: its gradient is wanted, too.
  std::function<bool(llvm::StringRef)> wantsInputGradient = [](llvm::StringRef) { return false; };
  /// An optimizer follows: gradients of weights are marked with kShardedAsAttr, since each rank needs those
  /// of its own shards; of the function's own results the loss and its normalizer stay.
  bool isForOptimizer = false;
};

/// Name of a result that is the gradient of a weight or argument: `grad.fc.weight`.
std::string gradientName(llvm::StringRef of);

/// Marks the loss (kLossAttr), and adds its gradients to the results of the function, in the order in which
/// parameters (and then arguments) stand in it: `%loss, %dw = …`. A parameter that the loss does not depend
/// on has none. The output tree becomes
/// `["dict", "outputs", the former tree, "gradients", ["dict", name, gradient, …]]`.
///
/// Backward operations are those that PyTorch runs, for any sizes of the dynamic dimensions. The module path
/// of each is that of its forward operation. A forward operation is replaced by several if the backward pass
/// needs a value from within it, as a mask of dropout. Gradients of a weight that is used several times are
/// added. Gradients stop at operators with `OpSemantics::stopsGradients` (`aten.detach`), which are then
/// removed, and at `cleave.read_state`.
///
/// An operation whose backward pass depends on data (control flow, data-dependent shapes) becomes a
/// `cleave.vjp`. Fails with a diagnostic at an operator without a derivative, at an in-place write of a value
/// that requires grad, and at a random operator that would run a second time.
mlir::LogicalResult differentiate(mlir::func::FuncOp function, const DerivativeOptions &options);

/// Vector-Jacobian product of the function. Its arguments are `wanted.size()` inputs, then for each index in
/// `results`, in that order, the gradient of that result, with the same shape and dtype. Adds to the results
/// the gradient of each input i with `wanted[i]` that they depend on. Marks no loss, and leaves the output
/// tree. Fails, with a diagnostic, as `differentiate` does; the function is then partly changed.
/// \returns for each input the index of the result that is its gradient, or nothing.
mlir::FailureOr<llvm::SmallVector<std::optional<unsigned>>>
addVjp(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> results, const std::vector<bool> &wanted);

/// Replaces operators at which gradients stop by their operands.
void removeGradientStops(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_DIFFERENTIATE_H
