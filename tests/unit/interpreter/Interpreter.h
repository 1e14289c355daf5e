//===- Interpreter.h - Functions, operation by operation --------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H
#define CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H

#include "ir/IValueConversion.h"
#include "ir/OperatorDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <map>

namespace cleave {

using Tensors = std::vector<at::Tensor>;
using Named = std::map<std::string, at::Tensor>;

/// What a run of a function gives.
struct Found {
  Tensors results;
  /// Of boundaries by path, of states by name.
  Named captured, states;
};

/// Runs a function operation by operation, and keeps what each gave.
class Interpreter {
public:
  /// \param rank  whose parts of weights are taken.
  Interpreter(const Named &weights, const Tensors &inputs, unsigned rank = 0)
      : weights(weights), inputs(inputs), rank(rank) {}

  /// Throws what an operator throws.
  Found run(mlir::func::FuncOp function);
  const c10::IValue &valueOf(mlir::Value value) const { return values.find(value)->second; }

private:
  /// The operands of the terminator.
  mlir::OperandRange run(mlir::Block &block);
  void run(mlir::Operation &op);
  void run(LoopOp loop);
  void call(OperatorOp op);
  c10::IValue partOf(ParamOp param) const;

  const Named &weights;
  const Tensors &inputs;
  const unsigned rank;
  llvm::DenseMap<mlir::Value, c10::IValue> values;
  Found found;
};

/// What an operator gives for these operands.
std::vector<c10::IValue> callOperator(OperatorOp op, std::vector<c10::IValue> operands);
/// A list of the values, of the list's type.
c10::IValue makeList(ListOp list, llvm::ArrayRef<c10::IValue> items);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H
