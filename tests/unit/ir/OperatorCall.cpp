#include "OperatorCall.h"
#include "ir/Interpret.h"
#include "ir/inference/ShapeInference.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {

static MLIRContext &context() {
  static MLIRContext instance = [] {
    DialectRegistry registry;
    registerDialects(registry);
    return MLIRContext(registry, MLIRContext::Threading::DISABLED);
  }();
  return instance;
}

/// The type and value of a constant operand, as cleave.constant writes them.
static std::pair<std::string, std::string> constantText(const std::string &operand) {
  if (operand == "none")
    return {"none", "unit"};
  if (operand == "true" || operand == "false")
    return {"i1", operand};
  if (operand[0] == '[')
    return {"!cleave.list<i64>", operand};
  if (operand[0] == '"')
    return {"!cleave.str", operand};
  bool isFloat = operand.find('.') != std::string::npos;
  return {isFloat ? "f64" : "i64", operand + (isFloat ? " : f64" : " : i64")};
}

static std::string functionText(const std::string &name, const std::vector<std::string> &operands) {
  std::string arguments, constants, values, types;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    std::string value = "%v" + std::to_string(i), comma = i ? ", " : "";
    std::string type = operand;
    if (operand.rfind("tensor", 0) == 0) {
      arguments += (arguments.empty() ? "" : ", ") + value + ": " + type;
    } else {
      auto [constantType, text] = constantText(operand);
      type = constantType;
      constants += "  " + value + " = cleave.constant(" + text + ") : " + type + "\n";
    }
    values += comma + value;
    types += comma + type;
  }
  const OperatorSchema *schema = findSchema(name);
  EXPECT_NE(schema, nullptr) << name;
  std::vector<std::string> results(schema ? schema->results.size() : 1, "!cleave.tensor");
  return "func.func @f(" + arguments + ") {\n" + constants + "  %r:" + std::to_string(results.size()) +
         " = " + name + "(" + values + ") : (" + types + ") -> (" + llvm::join(results, ", ") +
         ")\n  return\n}\n";
}

OperatorCall::OperatorCall(const std::string &name, const std::vector<std::string> &operands)
    : module(parseSourceString<ModuleOp>(functionText(name, operands), &context())) {
  if (!module)
    throw std::runtime_error(name + " does not parse:\n" + functionText(name, operands));
  auto function = *module->getOps<func::FuncOp>().begin();
  call = *function.getOps<OperatorOp>().begin();
  auto inferred = inferShapes(function);
  for (Value result : call->getResults())
    if (auto type = inferred->tensors.lookup(result))
      result.setType(type);
}

TracedShapes OperatorCall::shapes() const { return TracedShapes(call->getParentOp()); }

static at::Tensor randomTensor(RankedTensorType type) {
  at::ScalarType dtype = *scalarTypeOf(type.getElementType());
  at::IntArrayRef shape(type.getShape().data(), type.getRank());
  if (at::isFloatingType(dtype) || at::isComplexType(dtype))
    return at::randn(shape, dtype);
  return at::randint(dtype == at::kBool ? 2 : 3, shape, dtype);
}

std::vector<c10::IValue> OperatorCall::makeOperands(uint64_t seed) const {
  at::manual_seed(seed);
  std::vector<c10::IValue> operands;
  for (Value operand : call->getOperands()) {
    if (auto constant = operand.getDefiningOp<ConstantOp>())
      operands.push_back(toIValue(constant.getValue(), constant.getType()));
    else
      operands.push_back(randomTensor(cast<RankedTensorType>(operand.getType())));
  }
  return operands;
}

std::vector<c10::IValue> OperatorCall::run(std::vector<c10::IValue> operands) const {
  torch::jit::Stack stack(std::move(operands));
  findOperator(op().getName())->getOperation()(stack);
  return stack;
}

} // namespace cleave
