//===- Shapes.h - Shapes and constant arguments, as rules read them -*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_SHAPES_H
#define CLEAVE_IR_SEMANTICS_SHAPES_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"

namespace cleave {

using OptionalShape = std::optional<llvm::SmallVector<int64_t>>;

/// The operands, where the items of a list of tensors that is made in sight stand for it.
llvm::SmallVector<mlir::Value> flatOperands(OperatorOp op);

/// The shape of every flat operand; nothing for those that are no tensors.
llvm::SmallVector<OptionalShape> operandShapes(OperatorOp op, const ExampleShapes &shapes);
llvm::SmallVector<OptionalShape> resultShapes(OperatorOp op, const ExampleShapes &shapes);

/// A constant integer, bool or list argument; nothing when it is no constant or None.
std::optional<int64_t> constantInt(OperatorOp op, llvm::StringRef argument);
std::optional<llvm::SmallVector<int64_t>> constantInts(OperatorOp op, llvm::StringRef argument);

/// The dimension that `dim` names, which counts from the end where it is negative; nothing where there is
/// none.
std::optional<unsigned> dimensionAt(int64_t dim, size_t rank);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_SHAPES_H
