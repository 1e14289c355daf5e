//===- KeyedDraw.h - Builds random numbers by key and index -----*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_KEYEDDRAW_H
#define CLEAVE_IR_SEMANTICS_KEYEDDRAW_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace cleave {

/// Builds the replacement of one random call at the builder's insertion point. All tensors have the shape of
/// its result.
struct KeyedDraw {
  mlir::OpBuilder &builder;
  mlir::Location location;
  /// Operands of the operators in random/RandomOperators.h; `indices` is a list.
  mlir::Value key, stream, indices;
  /// Type of the call's result.
  mlir::RankedTensorType type;

  /// The same draw in float32; one in float64 stays.
  KeyedDraw inFloat32() const;
  /// Tensors of the dtype of the call's result. Only bernoulli supports integer dtypes. `p` is a float.
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
