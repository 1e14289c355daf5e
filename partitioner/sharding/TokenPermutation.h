//===- TokenPermutation.h - Rows of the batch, sorted and brought back -*- C++ -*-===//
//
// A mixture of experts sorts the rows of its tokens by expert, computes each expert's rows one behind the
// other, and brings them back:
//
//   keys, sources = sort(experts)               Keys, Sources
//   rows = x[sources // choices]                Rows
//   ends = cumsum(histc(keys))                  Counts, Ends
//   rows = grouped_mm(rows, weights, ends)      Rows
//   returns[sources] = arange                   Returns
//   y = rows[returns]                           in the batch's own order again
//
// Each row is made of its own sample alone, whatever stands before it, so that parts of the batch give parts
// of `y`. Counts in float32, as histc makes them, are exact below 2^24 rows.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H
#define CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H

#include "ir/ExampleShapes.h"
#include "ir/semantics/OpSemantics.h"

namespace cleave {

/// Follows what sorts of the batch's rows give, for one walk in program order.
class TokenPermutation {
public:
  /// `shapes` must outlive the object.
  TokenPermutation(llvm::StringRef batch, const ExampleShapes &shapes) : batch(batch), shapes(shapes) {}

  /// What a value is to the sort that it depends on.
  enum class Content {
    Rows,    ///< rows in order
    Keys,    ///< rows in order: what was sorted
    Sources, ///< rows in order: where each was; or, for each `choices` of them, the one row that they are of
    Returns, ///< by a row's own place: where it is
    Counts,  ///< of keys, by value
    Ends,    ///< of the rows of each key
    Items,   ///< whatever an aggregate has
  };

  enum class Verdict {
    Unconcerned, ///< has nothing to do with a sort of rows
    Followed,    ///< is known, and so is what it gives
    Aligned,     ///< takes rows of one order: where its rule passes them, call `keepOrder`
    Refused,     ///< mixes orders, or takes numbers for data that are others in each part
  };
  Verdict visit(OperatorOp op);
  /// Lists, tuples and dictionaries of what depends on a sort do, too. Operators look through lists, nothing
  /// else may.
  void visitAggregate(mlir::Operation *op);
  /// The results have the order of the operands; false where they are seen in another shape.
  bool keepOrder(mlir::Operation *op);
  /// The sort that a value depends on, which rows in the batch's own order no longer do; null for none.
  mlir::Operation *sortOf(mlir::Value value) const { return known.lookup(value).sort; }
  /// An aggregate of which an item depends on a sort.
  bool isAggregate(mlir::Value value) const { return is(value, Content::Items); }
  /// Both are the same.
  void share(mlir::Value from, mlir::Value to) {
    if (Known known = this->known.lookup(from); known.sort)
      this->known[to] = known;
  }
  /// The sort that an operand, or an item of one, depends on; null for none.
  mlir::Operation *sortBefore(mlir::Operation *op) const;

private:
  struct Known {
    mlir::Operation *sort = nullptr;
    Content content = Content::Rows;
    int64_t choices = 1;
  };

  bool is(mlir::Value value, Content content) const {
    auto found = known.find(value);
    return found != known.end() && found->second.content == content;
  }
  bool isInOrder(mlir::Value value) const {
    return is(value, Content::Rows) || is(value, Content::Keys) || is(value, Content::Sources);
  }
  /// The size of the dimension that holds the batch, as text; empty where none does, and for lists.
  llvm::StringRef length(mlir::Value value) const;
  bool isRange(mlir::Value value, llvm::StringRef end) const;

  bool beginOrder(OperatorOp op);
  /// What the operator is known to give of `sort`; nothing where it is not.
  std::optional<Known> follow(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  std::optional<Known> followLookup(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  std::optional<Known> followPlacing(OperatorOp op, mlir::Operation *sort, bool &isBack) const;
  bool countsKeys(OperatorOp op, mlir::Operation *sort) const;
  bool isAligned(OperatorOp op) const;

  llvm::StringRef batch;
  const ExampleShapes &shapes;
  llvm::DenseMap<mlir::Value, Known> known;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_TOKENPERMUTATION_H
