//===- Lists.h - Lists and dicts that change --------------------*- C++ -*-===//
//
// Private to frontend/. A list is a value in the IR, but a mutable object in TorchScript.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H

#include "ir/semantics/DictEntries.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <torch/csrc/jit/ir/ir.h>

namespace cleave {

/// The present content of each list and dict. An object is identified by the value that made it.
class Lists {
public:
  /// True if the node changes its first argument, a list or dict.
  static bool isChange(const torch::jit::Node *node);
  /// Lists and dicts from outside the blocks of `node` that these blocks change, in program order.
  static llvm::SetVector<const torch::jit::Value *> changedInside(const torch::jit::Node *node);

  /// Declares that `list` was made here and is referenced nowhere else, so it may change.
  void own(mlir::Value list) { owned.insert(list); }
  /// Declares that `value` is now held in another value, which would not see its changes.
  void share(mlir::Value value) { owned.erase(value); }
  bool isOwned(mlir::Value list) const { return owned.contains(list); }

  mlir::Value current(mlir::Value list) const {
    auto now = currents.find(list);
    return now == currents.end() ? list : now->second;
  }
  void setCurrent(mlir::Value list, mlir::Value value) { currents[list] = value; }

  /// Applies an operator that changes a list (`aten.append.t`): the new content becomes the list's current
  /// value. `operands` are current values. If the operator returns an item (pop), `item` is set to it; else
  /// the operator's result is the changed list. Appending to or extending a list whose content is only known
  /// at run time makes `list + more`. Any other change fails, without a diagnostic, if the content, the
  /// position or the key is only known at run time.
  mlir::LogicalResult change(llvm::StringRef irName, mlir::Value list, mlir::ValueRange operands,
                             mlir::OpBuilder &b, mlir::Location location, mlir::Value &item);

  /// The list of a dict's keys, values or items, in the order of insertion; null if the dict is not made in
  /// the function of constant keys.
  /// \param type  of the list.
  static mlir::Value listEntries(DictEntries entries, mlir::Value dict, mlir::Type type, mlir::OpBuilder &b,
                                 mlir::Location location);

  /// The current values; restored after a branch, since branches do not see each other's changes.
  using Snapshot = llvm::DenseMap<mlir::Value, mlir::Value>;
  Snapshot snapshot() const { return currents; }
  void restore(Snapshot snapshot) { currents = std::move(snapshot); }

private:
  llvm::DenseSet<mlir::Value> owned;
  Snapshot currents;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H
