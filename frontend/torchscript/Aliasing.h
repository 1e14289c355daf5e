//===- Aliasing.h - Which tensors share memory ------------------*- C++ -*-===//
//
// Private to frontend/. What the program says before anything of it is made functional.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H

#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "mlir/IR/Value.h"

namespace cleave {

/// Whether values of the type are tensors or hold tensors.
bool holdsTensors(mlir::Type type);

/// The operand that an operator writes; null when it writes none, or no tensor.
mlir::Value writtenOperand(OperatorOp op);

/// The operand whose memory the operation's results may be, for views, operators that may return what they
/// are given, and in-place operators. Null when results are tensors of their own. Tuples, lists and dicts
/// hold their operands and are none's alias.
mlir::Value aliasedOperand(mlir::Operation *op);

/// Whether the results surely are the aliased operand's memory, as views' are and `reshape`'s only sometimes.
bool isCertainView(mlir::Operation *op);

/// The tensor or aggregate behind views and in-place operators.
mlir::Value rootOf(mlir::Value value);

/// Whether nobody but users of `root` sees its memory: it is an argument of the program, or an operator made
/// it, or a branch or loop whose every alternative did so for nobody else.
bool isPrivate(mlir::Value root);

/// Whether `unpack` takes apart pieces of a tensor (`chunk`, `unbind`), which overlap nowhere, and nothing
/// else of that tensor is used behind `writer`.
bool areOwnParts(UnpackOp unpack, mlir::Operation *writer);

/// Whether anything but `written` and its own views is used behind `writer` and may share memory with `base`.
bool isSeenLater(mlir::Value base, mlir::Value written, mlir::Operation *writer);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H
