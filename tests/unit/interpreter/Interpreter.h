//===- Interpreter.h - Functions, operation by operation --------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H
#define CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H

#include "ir/IValueConversion.h"
#include "ir/OperatorDialect.h"
#include "ir/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <functional>
#include <map>

namespace cleave {

using Tensors = std::vector<at::Tensor>;
using NamedTensors = std::map<std::string, at::Tensor>;

/// What a run of a function returns and captures.
struct RunResults {
  Tensors results;
  /// Of boundaries by path, of states by name.
  NamedTensors captured, states;
  /// Of observes by path.
  NamedTensors observed;
};

/// What an operator gives for these operands.
std::vector<c10::IValue> callOperator(OperatorOp op, std::vector<c10::IValue> operands);

/// Runs a function operation by operation, and keeps what each gave.
class Interpreter {
public:
  using Call = std::function<std::vector<c10::IValue>(OperatorOp, std::vector<c10::IValue>)>;
  /// What takes the place of an observed value.
  using Edit = std::function<at::Tensor(ObserveOp, const at::Tensor &)>;
  /// \param rank  whose parts of weights are taken.
  /// \param callOf  calls operators.
  /// \param edit  if given, later operations read what it gives for each observe.
  Interpreter(const NamedTensors &weights, const Tensors &inputs, unsigned rank = 0,
              Call callOf = callOperator, Edit edit = nullptr)
      : weights(weights), inputs(inputs), rank(rank), callOf(std::move(callOf)), edit(std::move(edit)) {}

  /// Throws what an operator throws.
  RunResults run(mlir::func::FuncOp function);
  const c10::IValue &valueOf(mlir::Value value) const { return values.find(value)->second; }

private:
  /// The operands of the terminator.
  mlir::OperandRange run(mlir::Block &block);
  void run(mlir::Operation &op);
  void run(LoopOp loop);
  void call(OperatorOp op);
  c10::IValue partOf(ParamOp param) const;

  const NamedTensors &weights;
  const Tensors &inputs;
  const unsigned rank;
  const Call callOf;
  const Edit edit;
  llvm::DenseMap<mlir::Value, c10::IValue> values;
  /// Of dynamic dimensions, as the inputs have them.
  llvm::StringMap<int64_t> sizes;
  RunResults found;
};

/// A list of the values, of the list's type.
c10::IValue makeList(ListOp list, llvm::ArrayRef<c10::IValue> items);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_INTERPRETER_INTERPRETER_H
