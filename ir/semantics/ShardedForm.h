//===- ShardedForm.h - A call on a part of its dimension --------*- C++ -*-===//
#ifndef CLEAVE_IR_SEMANTICS_SHARDEDFORM_H
#define CLEAVE_IR_SEMANTICS_SHARDEDFORM_H

#include "ir/OperatorDialect.h"
#include "mlir/IR/Builders.h"

namespace cleave {

/// What OpSemantics::shardedForm builds with: each tensor-parallel rank has one range of a factor.
class ShardedForm {
public:
  /// \param begins, counts  by rank: its first index of the factor, and the number of them.
  ShardedForm(mlir::OpBuilder &builder, mlir::Location location, llvm::ArrayRef<int64_t> begins,
              llvm::ArrayRef<int64_t> counts)
      : builder(builder), location(location), begins(begins), counts(counts) {}

  mlir::Value call(llvm::StringRef irName, mlir::ValueRange operands) const {
    return calls(irName, operands, 1).front();
  }
  llvm::SmallVector<mlir::Value> calls(llvm::StringRef irName, mlir::ValueRange operands,
                                       unsigned results) const;
  mlir::Value integer(int64_t value) const;
  mlir::Value boolean(bool value) const;
  mlir::Value none() const;
  mlir::Value integers(llvm::ArrayRef<int64_t> values) const;
  /// The rank's number of indices.
  mlir::Value count() const { return perRank(counts); }
  /// The sum over ranks.
  mlir::Value sum(mlir::Value part) const { return call("spmd.all_reduce", part); }
  /// All-gathers `part`, of size 1 in dimension `dim`, along that dimension.
  mlir::Value gathered(mlir::Value part, int64_t dim) const;
  /// Indices of the whole factor as those of the rank's range, with `none` in place of others and of
  /// `ignored`. An index outside of the whole stays outside of the range of one rank.
  mlir::Value ownIndices(mlir::Value indices, std::optional<int64_t> ignored, int64_t none) const;

private:
  mlir::Value perRank(llvm::ArrayRef<int64_t> values) const;

  mlir::OpBuilder &builder;
  const mlir::Location location;
  const llvm::ArrayRef<int64_t> begins, counts;
};

} // namespace cleave

#endif // CLEAVE_IR_SEMANTICS_SHARDEDFORM_H
