//===- GradientFlow.h - Which values have gradients -------------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_GRADIENTFLOW_H
#define CLEAVE_IR_SEMANTICS_GRADIENTFLOW_H

#include "ir/OperatorDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave {

/// Which values of a function have gradients when its parameters are trained.
class GradientFlow {
public:
  explicit GradientFlow(mlir::Operation *function);
  /// True if the value is a parameter, or depends on one through operators that have derivatives.
  bool requiresGrad(mlir::Value value) const { return requiringGrad.contains(value); }
  /// True if the value depends on the request's inputs, or on states.
  bool dependsOnInputs(mlir::Value value) const { return dependingOnInputs.contains(value); }
  /// True if the value is a parameter or is computed from parameters alone, so its gradient is a weight
  /// gradient.
  bool isWeight(mlir::Value value) const { return requiresGrad(value) && !dependsOnInputs(value); }
  /// True if gradients go through the operation.
  bool isDifferentiated(mlir::Operation *op) const;

private:
  void follow(mlir::Operation *op);
  llvm::DenseSet<mlir::Value> requiringGrad, dependingOnInputs;
};

/// The value that owns the storage: the base of the chain of views.
mlir::Value storageOf(mlir::Value value);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_GRADIENTFLOW_H
