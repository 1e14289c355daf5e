//===- ConstantFolding.h - Operators on constants ---------------*- C++ -*-===//
#ifndef CLEAVE_IR_CONSTANTFOLDING_H
#define CLEAVE_IR_CONSTANTFOLDING_H

#include "ir/OperatorDialect.h"

namespace cleave {

/// Folds an operator: to an operand where it passes one through unchanged (op-semantics table, `identityOf`),
/// to an element where it picks one from a list or tuple that is made in sight, and to a constant where all
/// operands are constants, by calling the operator itself. Operators that make tensors, draw random numbers
/// or have effects stay.
mlir::LogicalResult foldOperator(OperatorOp op, llvm::ArrayRef<mlir::Attribute> operands,
                                 llvm::SmallVectorImpl<mlir::OpFoldResult> &results);

} // namespace cleave

#endif // CLEAVE_IR_CONSTANTFOLDING_H
