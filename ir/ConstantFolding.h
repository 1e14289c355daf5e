//===- ConstantFolding.h - Operators on constants ---------------*- C++ -*-===//
#ifndef CLEAVE_IR_CONSTANTFOLDING_H
#define CLEAVE_IR_CONSTANTFOLDING_H

#include "ir/OperatorDialect.h"

namespace cleave {

/// Folds an operator to an operand that it passes through unchanged (op-semantics table, `identityOf`), to an
/// element that it takes from a list or tuple made in the function, or, if all operands are constants, to the
/// constant that the operator itself computes. Operators that make tensors, draw random numbers or have side
/// effects are not folded.
mlir::LogicalResult foldOperator(OperatorOp op, llvm::ArrayRef<mlir::Attribute> operands,
                                 llvm::SmallVectorImpl<mlir::OpFoldResult> &results);

} // namespace cleave

#endif // CLEAVE_IR_CONSTANTFOLDING_H
