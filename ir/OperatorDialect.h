//===- OperatorDialect.h - PyTorch's operators as MLIR operations -*- C++ -*-===//
//
// One dialect per namespace of the operator registry (`aten`, `prim`, `quantized`, …), one operation per
// schema:
//
//   %y = aten.linear(%x, %w, %b) : (tensor<4x768xf32>, tensor<3072x768xf32>, tensor<3072xf32>) ->
//   tensor<4x3072xf32>
//
// Every argument of the schema is an operand, in order; an absent one is a constant None.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_OPERATORDIALECT_H
#define CLEAVE_IR_OPERATORDIALECT_H

#include "ir/Schemas.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"

namespace cleave {

/// The operators of one namespace.
class OperatorDialect : public mlir::Dialect {
public:
  OperatorDialect(llvm::StringRef ns, mlir::TypeID id, mlir::MLIRContext *context);
  mlir::Operation *materializeConstant(mlir::OpBuilder &builder, mlir::Attribute value, mlir::Type type,
                                       mlir::Location loc) override;
};

void registerOperatorDialects(mlir::DialectRegistry &registry);

/// A view of any operation of an OperatorDialect: `if (auto op = dyn_cast<OperatorOp>(operation))`.
class OperatorOp : public mlir::OpState {
public:
  explicit OperatorOp(mlir::Operation *op) : OpState(op) {}
  static bool classof(mlir::Operation *op);
  static mlir::Operation *create(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef irName,
                                 mlir::ValueRange operands, mlir::TypeRange results);

  const OperatorSchema &getSchema();
  llvm::StringRef getName() { return getOperation()->getName().getStringRef(); }
  /// The name without its overload: `aten.add` for `aten.add.Tensor`.
  llvm::StringRef getBaseName();
  /// The operand for argument `name` of the schema; null if the schema has no such argument, or `name` is
  /// empty. An absent argument is a constant None, not null.
  mlir::Value getArgument(llvm::StringRef name);
  /// The schema's name of the operand; empty if it has none.
  llvm::StringRef getArgumentName(unsigned operand);
  /// The attribute of an argument that is a constant; null otherwise.
  mlir::Attribute getConstantArgument(llvm::StringRef name);
};

} // namespace cleave

#endif // CLEAVE_IR_OPERATORDIALECT_H
