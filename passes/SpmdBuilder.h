//===- SpmdBuilder.h - Builder of SPMD programs -----------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_SPMDBUILDER_H
#define CLEAVE_PASSES_SPMDBUILDER_H

#include "ir/OperatorDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// Ranges of consecutive indices: offset, size, offset, size, …
using Ranges = llvm::SmallVector<int64_t>;

mlir::Type intsType(mlir::MLIRContext *context);
mlir::Attribute intsAttr(mlir::Builder &b, llvm::ArrayRef<int64_t> values);

/// Builds per-rank constants, and calls with them, at `builder` and `location`. Types of the calls' results
/// are left to infer-types.
class SpmdBuilder {
protected:
  SpmdBuilder(mlir::func::FuncOp function, unsigned ranks);

  /// A value for each rank; a plain constant if all are equal.
  mlir::Value perRank(mlir::Type type, llvm::ArrayRef<mlir::Attribute> values);
  mlir::Value perRank(llvm::ArrayRef<int64_t> values);
  mlir::Value perRank(llvm::ArrayRef<double> values);
  mlir::Value constant(int64_t value) { return perRank(llvm::SmallVector<int64_t>(ranks, value)); }
  mlir::Value ints(llvm::ArrayRef<int64_t> values);
  mlir::Value call(llvm::StringRef name, mlir::ValueRange operands);
  /// Concatenates each rank's ranges of its tensor along `dim`. A single range is a view, unless `copies`.
  mlir::Value pick(mlir::Value from, unsigned dim, const std::vector<Ranges> &ranges, bool copies = false);
  /// Restores the memory layout of `type` on a tensor that a collective returned in row-major order, for
  /// views that depend on the layout.
  mlir::Value laidOut(mlir::Value exchanged, mlir::Type type);

  const unsigned ranks;
  mlir::OpBuilder builder;
  mlir::Location location;

private:
  /// By dynamic dimension: its size in the example inputs.
  llvm::StringMap<int64_t> sizes;
};

} // namespace cleave

#endif // CLEAVE_PASSES_SPMDBUILDER_H
