//===- TokenPermutation.h - Rows of the batch in sorted order ---*- C++ -*-===//
//
// A mixture of experts permutes the rows of its tokens: it sorts them by expert, computes each expert's rows
// as one block, and restores the order of the batch:
//
//   keys, sources = sort(experts)               Keys, Permutation
//   rows = x[sources // topK]                   Rows
//   ends = cumsum(histc(keys))                  Counts, Offsets
//   rows = grouped_mm(rows, weights, ends)      Rows
//   returns[sources] = arange                   InversePermutation
//   y = rows[returns]                           in the batch's own order again
//
// A row depends on its own sample only, whatever rows stand before it, so parts of the batch give parts of
// `y`. Counts in float32, as histc makes them, are exact below 2^24 rows.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H
#define CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H

#include "ir/ExampleShapes.h"
#include "ir/semantics/OpSemantics.h"

namespace cleave {

/// Tracks values that depend on a sort of the batch's rows, in one walk in program order.
class TokenPermutation {
public:
  /// `shapes` must outlive the object.
  TokenPermutation(llvm::StringRef batch, const ExampleShapes &shapes) : batch(batch), shapes(shapes) {}

  /// Role of a value relative to the sort that it depends on.
  enum class ValueRole {
    Rows,               ///< rows in sorted order
    Keys,               ///< the sorted keys
    Permutation,        ///< by sorted row: its index before the sort; divided by `topK`, the token's index
    InversePermutation, ///< by index before the sort: the row's index after it (the inverse permutation)
    Counts,             ///< by key: number of its rows
    Offsets,            ///< by key: end offset of its rows
    Items,              ///< an aggregate; its items have roles of their own
  };

  enum class Verdict {
    Unconcerned, ///< does not depend on a sort of rows
    Followed,    ///< recognised: the role of its result is known
    Aligned,     ///< takes rows of one order; if its rule passes the batch through, call `keepOrder`
    Refused,     ///< mixes orders, or uses indices, which differ between parts, as data
  };
  Verdict visit(OperatorOp op);
  /// Handles a list, tuple or dictionary: it depends on a sort if an item does. Only operators look through
  /// lists.
  void visitAggregate(mlir::Operation *op);
  /// Gives the results the order of the operands; false if the results have another length in the batch
  /// dimension.
  bool keepOrder(mlir::Operation *op);
  /// The sort that a value depends on; null if there is none, as for rows that are back in the batch's order.
  mlir::Operation *sortOf(mlir::Value value) const { return known.lookup(value).sort; }
  /// True if the value is an aggregate with an item that depends on a sort.
  bool isAggregate(mlir::Value value) const { return is(value, ValueRole::Items); }
  /// Gives `to` what is known of `from`, which is the same value.
  void share(mlir::Value from, mlir::Value to) {
    if (Known known = this->known.lookup(from); known.sort)
      this->known[to] = known;
  }
  /// The sort that an operand, or an item of one, depends on; null if there is none.
  mlir::Operation *sortBefore(mlir::Operation *op) const;

private:
  struct Known {
    mlir::Operation *sort = nullptr;
    ValueRole content = ValueRole::Rows;
    int64_t topK = 1;
  };

  bool is(mlir::Value value, ValueRole content) const {
    auto found = known.find(value);
    return found != known.end() && found->second.content == content;
  }
  bool isInOrder(mlir::Value value) const {
    return is(value, ValueRole::Rows) || is(value, ValueRole::Keys) || is(value, ValueRole::Permutation);
  }
  /// The size of the dimension that holds the batch, as text; empty if there is none, and for lists.
  llvm::StringRef length(mlir::Value value) const;
  bool isRange(mlir::Value value, llvm::StringRef end) const;

  bool beginOrder(OperatorOp op);
  /// What is known of the operator's result, which depends on `sort`; nothing if the operator is not
  /// recognised.
  std::optional<Known> follow(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  std::optional<Known> followLookup(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  std::optional<Known> followScatter(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  bool countsKeys(OperatorOp op, mlir::Operation *sort) const;
  bool isAligned(OperatorOp op) const;

  llvm::StringRef batch;
  const ExampleShapes &shapes;
  llvm::DenseMap<mlir::Value, Known> known;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H
