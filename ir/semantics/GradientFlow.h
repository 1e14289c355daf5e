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
  /// It depends on a parameter, or is one, by operators that have derivatives.
  bool reaches(mlir::Value value) const { return ofParameters.contains(value); }
  /// It depends on the inputs of the request, or on what is kept from the last one.
  bool isOfRequest(mlir::Value value) const { return ofRequest.contains(value); }
  /// Its gradient is a parameter's, or leads to parameters only.
  bool isWeight(mlir::Value value) const { return reaches(value) && !isOfRequest(value); }
  /// Gradients go through the operation.
  bool passes(mlir::Operation *op) const;

private:
  void follow(mlir::Operation *op);
  llvm::DenseSet<mlir::Value> ofParameters, ofRequest;
};

/// The value whose storage this one shares: what it is a view of, if of anything, in the end.
mlir::Value storageOf(mlir::Value value);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_GRADIENTFLOW_H
