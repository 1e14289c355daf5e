//===- Sampler.h - One run of a function without data -----------*- C++ -*-===//
//
// Private to ir/inference/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_SAMPLER_H
#define CLEAVE_IR_INFERENCE_SAMPLER_H

#include "ir/Interpret.h"
#include "ir/OperatorDialect.h"
#include "ir/inference/MetaCall.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringMap.h"
#include <unordered_map>
#include <vector>

namespace cleave {

/// Runs a function at given sizes: tensors on the meta device, scalars and 0-d integer tensors for real. A
/// value that cannot be had without data has no entry.
class Sampler {
public:
  /// \param seesStorages  each value has memory of its own, or that of what it is a view of. Otherwise
  ///                      calls that are alike, as those of equal layers, are made once, and their values
  ///                      are one.
  explicit Sampler(const llvm::StringMap<int64_t> &sizes, bool seesStorages = false)
      : sizes(sizes), seesStorages(seesStorages) {}

  void run(mlir::func::FuncOp function);

  llvm::DenseMap<mlir::Value, c10::IValue> values;
  /// Calls that threw.
  llvm::DenseMap<mlir::Operation *, CallFailure> failures;

private:
  void runBlock(mlir::Block &block);
  void runOp(mlir::Operation *op);
  void runLeaf(mlir::Operation *op);
  /// Notes what the model says, unless only data tells whether it comes so far.
  void raise(OperatorOp op);
  /// Makes a list, tuple or dict, or takes one apart.
  void construct(mlir::Operation *op, std::vector<c10::IValue> operands);
  void runOperator(OperatorOp op);
  void runIf(mlir::Operation *op);
  void runLoop(mlir::Operation *op);
  /// One iteration: whether another follows; nothing where only data tells. `varying` collects what is not
  /// the same as `before`.
  std::optional<bool> runIteration(mlir::Block &body, llvm::DenseMap<mlir::Value, c10::IValue> &before,
                                   llvm::DenseSet<mlir::Value> &varying);
  /// Gives up on an operation that only data can decide: nothing is known inside its regions, nor of lists
  /// that it, or what is inside, may have changed.
  void leave(mlir::Operation *op);
  void bindResults(mlir::ValueRange results, mlir::ValueRange from);
  void set(mlir::Value value, c10::IValue now);
  /// Collects operands; nothing when one is not known.
  std::optional<std::vector<c10::IValue>> operandsOf(mlir::Operation *op) const;
  c10::IValue emptyTensor(mlir::RankedTensorType type) const;

  /// What the types of a call's results depend on.
  using CallKey = std::vector<int64_t>;
  struct CallHash {
    size_t operator()(const CallKey &key) const { return llvm::hash_combine_range(key.begin(), key.end()); }
  };
  /// Nothing where the call is to be made.
  std::optional<CallKey> keyOf(OperatorOp op, const torch::jit::Stack &operands) const;

  llvm::StringMap<int64_t> sizes;
  bool seesStorages;
  /// Results of calls that gave tensors without data.
  std::unordered_map<CallKey, torch::jit::Stack, CallHash> known;
  /// Branches around the current operation of which only data tells whether they run.
  unsigned guesses = 0;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SAMPLER_H
