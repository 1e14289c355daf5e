//===- Sampler.h - One run of a function without data -----------*- C++ -*-===//
//
// Private to ir/inference/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_SAMPLER_H
#define CLEAVE_IR_INFERENCE_SAMPLER_H

#include "ir/Interpret.h"
#include "ir/OperatorDialect.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Runs a function at given sizes: tensors on the meta device, scalars and 0-d integer tensors for real. A value that
/// cannot be had without data has no entry.
class Sampler {
public:
  explicit Sampler(const llvm::StringMap<int64_t> &sizes) : sizes(sizes) {}

  void run(mlir::func::FuncOp function);

  llvm::DenseMap<mlir::Value, c10::IValue> values;
  /// Calls that threw, with the first line of what they said.
  llvm::DenseMap<mlir::Operation *, std::string> failures;

private:
  void runBlock(mlir::Block &block);
  void runOp(mlir::Operation *op);
  void runOperator(OperatorOp op);
  void runIf(mlir::Operation *op);
  void runLoop(mlir::Operation *op);
  void bindResults(mlir::ValueRange results, mlir::ValueRange from);
  void set(mlir::Value value, c10::IValue now);
  /// Collects operands; nothing when one is not known.
  std::optional<std::vector<c10::IValue>> operandsOf(mlir::Operation *op) const;
  c10::IValue emptyTensor(mlir::RankedTensorType type) const;

  const llvm::StringMap<int64_t> &sizes;
};

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_SAMPLER_H
