//===- Lists.h - Lists and dicts that change --------------------*- C++ -*-===//
//
// Private to frontend/. In the IR a list is a value; in TorchScript it is an object, to which a program
// appends.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include <torch/csrc/jit/ir/ir.h>

namespace cleave {

/// What each list and dict holds now. An object is known by the value that made it.
class Lists {
public:
  /// Whether the node changes its first argument, a list or dict.
  static bool isChange(const torch::jit::Node *node);
  /// Lists and dicts from outside that the blocks of `node` change, in program order.
  static llvm::SetVector<const torch::jit::Value *> changedInside(const torch::jit::Node *node);

  /// `list` was made here and nobody else has it: it may change.
  void own(mlir::Value list) { owned.insert(list); }
  /// `value` got into another value, which would not see its changes.
  void share(mlir::Value value) { owned.erase(value); }
  bool isOwned(mlir::Value list) const { return owned.contains(list); }

  mlir::Value current(mlir::Value list) const {
    auto now = currents.find(list);
    return now == currents.end() ? list : now->second;
  }
  void setCurrent(mlir::Value list, mlir::Value value) { currents[list] = value; }

  /// Makes what an operator that changes a list (`aten.append.t`) leaves of it the list's current value.
  /// `operands` are current values. The operator's result is the changed list itself, or `item` where it is
  /// one of its items. Fails without a diagnostic where the list's content, the position or the key is only
  /// known when running.
  mlir::LogicalResult change(llvm::StringRef irName, mlir::Value list, mlir::ValueRange operands,
                             mlir::OpBuilder &b, mlir::Location location, mlir::Value &item);

  /// Changes inside one branch are not the other's.
  using State = llvm::DenseMap<mlir::Value, mlir::Value>;
  State save() const { return currents; }
  void restore(State state) { currents = std::move(state); }

private:
  llvm::DenseSet<mlir::Value> owned;
  State currents;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_LISTS_H
