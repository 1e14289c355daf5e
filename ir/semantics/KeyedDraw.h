//===- KeyedDraw.h - Builds random numbers by key and index -----*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_KEYEDDRAW_H
#define CLEAVE_IR_SEMANTICS_KEYEDDRAW_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace cleave {

/// Builds what replaces one random call, at the builder's insertion point. Values have the call's shape.
struct KeyedDraw {
  mlir::OpBuilder &builder;
  mlir::Location location;
  /// Operands of the operators in random/RandomOperators.h; `indices` is a list.
  mlir::Value key, stream, indices;
  /// The result of the call.
  mlir::RankedTensorType type;

  /// The same draw in float32; one in float64 stays.
  KeyedDraw inFloat32() const;
  /// In the dtype of the call, which bernoulli alone may have integers for. `p` is a float.
  mlir::Value uniform() const;
  mlir::Value normal() const;
  mlir::Value bernoulli(mlir::Value p) const;
  /// Calls an operator with one result.
  mlir::Value call(llvm::StringRef irName, mlir::ValueRange operands) const;
  mlir::Value real(double value) const;
  /// `value` in the dtype of the call.
  mlir::Value converted(mlir::Value value) const;

private:
  mlir::Value dtype() const;
};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_KEYEDDRAW_H
