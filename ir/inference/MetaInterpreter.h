//===- MetaInterpreter.h - One run of a function without data ---*- C++ -*-===//
//
// Private to ir/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_METAINTERPRETER_H
#define CLEAVE_IR_INFERENCE_METAINTERPRETER_H

#include "ir/IValueConversion.h"
#include "ir/OperatorDialect.h"
#include "ir/inference/MetaCall.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <unordered_map>
#include <vector>

namespace cleave {

/// Runs a function at given sizes. Tensors are on the meta device; scalars and 0-d integer tensors have their
/// actual values. A value that depends on data has no entry.
class MetaInterpreter {
public:
  /// \param tracksStorages  true: each value has its own storage, or that of the value that it is a view of.
  /// False: equal calls, as those of equal layers, are made once and share their values.
  explicit MetaInterpreter(const llvm::StringMap<int64_t> &sizes, bool tracksStorages = false)
      : sizes(sizes), tracksStorages(tracksStorages) {}

  void run(mlir::func::FuncOp function);
  /// Runs one more operation of the function.
  void run(mlir::Operation *op);
  /// Forgets the results of an operation that is to be erased.
  void forget(mlir::Operation *op);

  llvm::DenseMap<mlir::Value, c10::IValue> values;
  /// Calls that threw.
  llvm::DenseMap<mlir::Operation *, CallFailure> failures;
  /// True if a call fails that does not fail in `other`, a run of the same function.
  bool failsWhereRuns(const MetaInterpreter &other) const {
    return llvm::any_of(failures, [&](auto &failed) { return !other.failures.count(failed.first); });
  }

private:
  void runBlock(mlir::Block &block);
  void runLeaf(mlir::Operation *op);
  /// Records the model's error, unless only data decides whether the program gets there.
  void raise(OperatorOp op);
  /// Makes a list, tuple or dict, or unpacks one.
  void construct(mlir::Operation *op, std::vector<c10::IValue> operands);
  void runOperator(OperatorOp op);
  void runIf(mlir::Operation *op);
  void runLoop(mlir::Operation *op);
  void runVjp(VjpOp op);
  /// Runs one iteration. Returns whether another follows; nothing if only data decides. `varying` collects
  /// values that differ from `before`.
  std::optional<bool> runIteration(mlir::Block &body, llvm::DenseMap<mlir::Value, c10::IValue> &before,
                                   llvm::DenseSet<mlir::Value> &varying);
  /// Gives up on an operation that only data can decide: values inside its regions become unknown, and so do
  /// lists that it may have changed.
  void markUnknown(mlir::Operation *op);
  void bindResults(mlir::ValueRange results, mlir::ValueRange from);
  void set(mlir::Value value, c10::IValue now);
  /// The operands; nothing if one is unknown.
  std::optional<std::vector<c10::IValue>> operandsOf(mlir::Operation *op) const;
  c10::IValue emptyTensor(mlir::RankedTensorType type) const;

  /// Everything that the types of a call's results depend on.
  using CallKey = std::vector<int64_t>;
  struct CallHash {
    size_t operator()(const CallKey &key) const { return llvm::hash_combine_range(key.begin(), key.end()); }
  };
  /// Nothing if the call must be made, not looked up.
  std::optional<CallKey> keyOf(OperatorOp op, const torch::jit::Stack &operands) const;

  llvm::StringMap<int64_t> sizes;
  bool tracksStorages;
  /// Results of calls that gave meta tensors.
  std::unordered_map<CallKey, torch::jit::Stack, CallHash> known;
  /// Number of enclosing branches of which only data decides whether they run.
  unsigned dataDependentDepth = 0;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_METAINTERPRETER_H
