//===- Shapes.h - Shapes and constant arguments, as rules read them -*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_SHAPES_H
#define CLEAVE_IR_SEMANTICS_SHAPES_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"

namespace cleave {

using OptionalShape = std::optional<llvm::SmallVector<int64_t>>;

/// The operands, with a list of tensors made in the function replaced by its items.
llvm::SmallVector<mlir::Value> flatOperands(OperatorOp op);

/// By flat operand: its shape; nothing for an operand that is no tensor.
llvm::SmallVector<OptionalShape> operandShapes(OperatorOp op, const ExampleShapes &shapes);
llvm::SmallVector<OptionalShape> resultShapes(OperatorOp op, const ExampleShapes &shapes);

/// The shape that tensors of these shapes are broadcast to.
llvm::SmallVector<int64_t> broadcastShape(llvm::ArrayRef<OptionalShape> shapes);

/// The value of a constant integer, bool or list argument; nothing if it is no constant or None.
std::optional<int64_t> constantInt(OperatorOp op, llvm::StringRef argument);
std::optional<llvm::SmallVector<int64_t>> constantInts(OperatorOp op, llvm::StringRef argument);

/// The dimension that `dim` names, from the end if negative; nothing if it is out of range.
std::optional<unsigned> dimensionAt(int64_t dim, size_t rank);

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_SHAPES_H
