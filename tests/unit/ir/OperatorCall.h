//===- OperatorCall.h - One call of an operator, from text ------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_IR_OPERATORCALL_H
#define CLEAVE_TESTS_UNIT_IR_OPERATORCALL_H

#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <ATen/core/ivalue.h>
#include <string>
#include <vector>

namespace cleave {

/// A function with one call in it, whose result types are inferred; of a call that fails they are not known.
class OperatorCall {
public:
  /// `operands` are a tensor's type, `tensor<4x6xf32>`, or a constant: `none`, `true`, `-1`, `0.5`, `[2, 3]`,
  /// `"text"`; or a list of tensors and none, `(tensor<4x6xf32>; none)`.
  OperatorCall(const std::string &name, const std::vector<std::string> &operands);

  OperatorOp op() const { return OperatorOp(call); }
  ExampleShapes shapes() const;
  /// Operands to run it with: constants, and seeded tensors (normal floats, integers 0 to 2, any bools).
  std::vector<c10::IValue> makeOperands(uint64_t seed) const;
  std::vector<c10::IValue> run(std::vector<c10::IValue> operands) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *call;
};

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_IR_OPERATORCALL_H
