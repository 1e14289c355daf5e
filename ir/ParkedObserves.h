//===- ParkedObserves.h - Observes out of the way of a pass -----*- C++ -*-===//
#ifndef CLEAVE_IR_PARKEDOBSERVES_H
#define CLEAVE_IR_PARKEDOBSERVES_H

#include "ir/Cleave.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace cleave {

/// Takes the observes (`cleave.observe`) of an operation out of the IR for as long as it lives, so that a
/// pass finds the program as it would be without them, and puts those back whose value is still there.
/// Declared observes stay in place.
///
/// A pass that replaces or erases operations does so with a rewriter whose listener this is. A value that is
/// replaced by another takes its observes along; with an operation that is erased they are dropped. Where
/// values become one that were several, an observe is marked `read_only` if an edit would then reach other
/// operations than before.
class ParkedObserves : public mlir::RewriterBase::Listener {
public:
  /// \param keepsPartialSums  an all-reduce that is erased leaves its observes to the partial sums.
  explicit ParkedObserves(mlir::Operation *root, bool keepsPartialSums = false);
  ~ParkedObserves() override;
  ParkedObserves(const ParkedObserves &) = delete;
  ParkedObserves &operator=(const ParkedObserves &) = delete;

  using mlir::RewriterBase::Listener::notifyOperationReplaced;
  void notifyOperationReplaced(mlir::Operation *op, mlir::ValueRange replacement) override;
  void notifyOperationErased(mlir::Operation *op) override;

private:
  struct Entry {
    ObserveOp op;
    /// Null once it is dropped.
    mlir::Value value;
    mlir::Block *block;
    /// The operation that it follows, which is no constant; null at the beginning of the block.
    mlir::Operation *previous;
  };
  /// Entries of one value, or that follow one operation, in program order.
  using Indices = llvm::SmallVector<unsigned, 2>;

  void park(ObserveOp op);
  void restore(Entry &entry);
  void drop(unsigned index);
  void move(unsigned index, mlir::Value to);
  bool isBefore(const Entry &entry, mlir::Operation *user) const;
  bool isReadAfter(const Entry &entry, mlir::Value value, mlir::Operation *except) const;
  bool isObservedAfter(unsigned index, mlir::Value value) const;
  void markMerged(mlir::Operation *op, mlir::Value from, mlir::Value to);
  void markReadOnly(unsigned index);

  const bool keepsPartialSums;
  std::vector<Entry> entries;
  llvm::DenseMap<mlir::Value, Indices> byValue;
  llvm::DenseMap<mlir::Operation *, Indices> byPrevious;
};

/// Erases all observes that are not declared.
void eraseObserves(mlir::Operation *root);

/// Makes a declared observe of a boundary, whose users then take its operand.
void observeBoundary(BoundaryOp boundary);

/// Sets the insertion point behind the value and the observes that follow it at once, so that an edit of the
/// value reaches what is inserted.
void setInsertionPointAfterObserved(mlir::OpBuilder &b, mlir::Value value);

} // namespace cleave

#endif // CLEAVE_IR_PARKEDOBSERVES_H
