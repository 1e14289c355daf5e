//===- AttachLoss.h - A loss as a further result ----------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_ATTACHLOSS_H
#define CLEAVE_IR_AUTOGRAD_ATTACHLOSS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>

namespace cleave {

/// A loss as the user writes it: `cross_entropy(logits, labels, ignore_index=-100)`.
struct LossCall {
  /// A loss of torch.nn.functional, without `_loss`.
  std::string name;
  /// Names of a result of the function and of one of its inputs.
  std::string result, target;
  /// Numbers by option; true is 1, false is 0.
  std::map<std::string, double> options;
};

/// Fails with what was found and expected.
llvm::Expected<LossCall> parseLoss(llvm::StringRef text);

/// Adds the loss, with PyTorch's `reduction='mean'`, as result `loss`. Types of the result and the input must
/// be known. The output tree becomes `["dict", "outputs", the former tree, "loss", the loss]`. Fails with a
/// diagnostic if names or shapes do not fit.
mlir::LogicalResult attachLoss(mlir::func::FuncOp function, const LossCall &loss);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_ATTACHLOSS_H
