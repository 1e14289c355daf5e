//===- Aliasing.h - Tensors that share memory -------------------*- C++ -*-===//
//
// Private to frontend/. Analyses the program before functionalization.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H

#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "mlir/IR/Value.h"

namespace cleave {

/// True if values of the type are tensors or hold tensors.
bool holdsTensors(mlir::Type type);

/// The operand that an operator writes; null if it writes none, or no tensor.
mlir::Value writtenOperand(OperatorOp op);

/// The operand whose memory the operation's results may share: for views, operators that may return their
/// operand, and in-place operators. Null if results are new tensors. Tuples, lists and dicts hold their
/// operands and alias none.
mlir::Value aliasedOperand(mlir::Operation *op);

/// True for views and in-place operators, whose results always share the aliased operand's memory; false for
/// `reshape`, whose result may be a copy.
bool isCertainView(mlir::Operation *op);

/// The base tensor or aggregate of a chain of views and in-place operators.
mlir::Value rootOf(mlir::Value value);

/// True if only users of `root` see its memory: `root` is an argument of the program, a result of an
/// operator, or a result of a branch or loop if every value yielded for it is private and made inside the
/// region.
bool isPrivate(mlir::Value root);

/// True if `unpack` unpacks disjoint pieces of a tensor (`chunk`, `unbind`), and nothing else of that tensor
/// is used after `writer`.
bool unpacksUnaliasedPieces(UnpackOp unpack, mlir::Operation *writer);

/// True if a value other than `written` and its views is used after `writer` and may share memory with
/// `base`.
bool isSeenLater(mlir::Value base, mlir::Value written, mlir::Operation *writer);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_ALIASING_H
