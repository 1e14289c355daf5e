//===- SpmdBuilder.h - What the program of all tensor ranks is made of -*- C++ -*-===//
#ifndef CLEAVE_PASSES_SPMDBUILDER_H
#define CLEAVE_PASSES_SPMDBUILDER_H

#include "ir/OperatorDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// Offsets and sizes by turns, of consecutive positions.
using Ranges = llvm::SmallVector<int64_t>;

mlir::Type intsType(mlir::MLIRContext *context);
mlir::Attribute intsAttr(mlir::Builder &b, llvm::ArrayRef<int64_t> values);

/// Makes numbers that each rank has its own of, and calls with them, at `builder` and `location`. Types of
/// calls' results are left to infer-types.
class SpmdBuilder {
protected:
  SpmdBuilder(mlir::func::FuncOp function, unsigned ranks);

  /// A constant where all ranks have the same.
  mlir::Value perRank(mlir::Type type, llvm::ArrayRef<mlir::Attribute> values);
  mlir::Value perRank(llvm::ArrayRef<int64_t> values);
  mlir::Value perRank(llvm::ArrayRef<double> values);
  mlir::Value constant(int64_t value) { return perRank(llvm::SmallVector<int64_t>(ranks, value)); }
  mlir::Value ints(llvm::ArrayRef<int64_t> values);
  mlir::Value call(llvm::StringRef name, mlir::ValueRange operands);
  /// The ranges of each rank's tensor, one after the other; of one range a view, unless `copies`.
  mlir::Value pick(mlir::Value from, unsigned dim, const std::vector<Ranges> &ranges, bool copies = false);
  /// What ranks exchange is row-major; views of what had its dimensions in another order in memory, as `type`
  /// says, want them so.
  mlir::Value laidOut(mlir::Value exchanged, mlir::Type type);

  const unsigned ranks;
  mlir::OpBuilder builder;
  mlir::Location location;

private:
  /// Of named dimensions, as traced.
  llvm::StringMap<int64_t> sizes;
};

} // namespace cleave

#endif // CLEAVE_PASSES_SPMDBUILDER_H
