#include "OperatorCall.h"
#include "ir/IValueConversion.h"
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
  if (operand[0] == '[') {
    const bool isFlags = operand.starts_with("[true") || operand.starts_with("[false");
    return {isFlags ? "!cleave.list<i1>" : "!cleave.list<i64>", operand};
  }
  if (operand[0] == '"')
    return {"!cleave.str", operand};
  bool isFloat = operand.find('.') != std::string::npos;
  return {isFloat ? "f64" : "i64", operand + (isFloat ? " : f64" : " : i64")};
}

namespace {
/// The text of a function, operand by operand.
struct FunctionText {
  std::string arguments, body;
  unsigned values = 0;

  /// Value and type of an operand.
  std::pair<std::string, std::string> add(llvm::StringRef operand) {
    std::string value = "%v" + std::to_string(values++);
    if (operand.consume_front("(")) {
      llvm::SmallVector<llvm::StringRef> items;
      operand.drop_back().split(items, ';');
      std::vector<std::string> names, types;
      for (llvm::StringRef item : items) {
        auto [name, type] = add(item.trim());
        names.push_back(name);
        types.push_back(type);
      }
      std::string list = llvm::is_contained(types, "none") ? "!cleave.list<!cleave.optional<!cleave.tensor>>"
                                                           : "!cleave.list<!cleave.tensor>";
      body += "  " + value + " = cleave.list(" + llvm::join(names, ", ") + ") : (" + llvm::join(types, ", ") +
              ") -> " + list + "\n";
      return {value, list};
    }
    if (operand.starts_with("tensor")) {
      arguments += (arguments.empty() ? "" : ", ") + value + ": " + operand.str();
      return {value, operand.str()};
    }
    auto [type, text] = constantText(operand.str());
    body += "  " + value + " = cleave.constant(" + text + ") : " + type + "\n";
    return {value, type};
  }
};
} // namespace

static std::string functionText(const std::string &name, const std::vector<std::string> &operands) {
  FunctionText text;
  std::vector<std::string> values, types;
  for (const std::string &operand : operands) {
    auto [value, type] = text.add(operand);
    values.push_back(value);
    types.push_back(type);
  }
  const OperatorSchema *schema = findSchema(name);
  EXPECT_NE(schema, nullptr) << name;
  std::vector<std::string> results;
  for (size_t i = 0; i < (schema ? schema->results.size() : 1); ++i)
    results.push_back(schema && llvm::StringRef(schema->results[i]).starts_with("Tensor[")
                          ? "!cleave.list<!cleave.tensor>"
                          : "!cleave.tensor");
  return "func.func @f(" + text.arguments + ") {\n" + text.body + "  %r:" + std::to_string(results.size()) +
         " = " + name + "(" + llvm::join(values, ", ") + ") : (" + llvm::join(types, ", ") + ") -> (" +
         llvm::join(results, ", ") + ")\n  return\n}\n";
}

OperatorCall::OperatorCall(const std::string &name, const std::vector<std::string> &operands)
    : module(parseSourceString<ModuleOp>(functionText(name, operands), &context())) {
  if (!module)
    throw std::runtime_error(name + " does not parse:\n" + functionText(name, operands));
  auto function = *module->getOps<func::FuncOp>().begin();
  call = *function.getOps<OperatorOp>().begin();
  auto inferred = inferShapes(function);
  for (Value result : call->getResults())
    if (auto type = succeeded(inferred) ? inferred->tensors.lookup(result) : RankedTensorType())
      result.setType(type);
}

ExampleShapes OperatorCall::shapes() const { return ExampleShapes(call->getParentOp()); }

static at::Tensor randomTensor(RankedTensorType type) {
  at::ScalarType dtype = *scalarTypeOf(type.getElementType());
  at::IntArrayRef shape(type.getShape().data(), type.getRank());
  if (at::isFloatingType(dtype) || at::isComplexType(dtype))
    return at::randn(shape, dtype);
  return at::randint(dtype == at::kBool ? 2 : 3, shape, dtype);
}

static c10::IValue makeOperand(Value operand) {
  if (auto constant = operand.getDefiningOp<ConstantOp>())
    return toIValue(constant.getValue(), constant.getType());
  auto list = operand.getDefiningOp<ListOp>();
  if (!list)
    return randomTensor(cast<RankedTensorType>(operand.getType()));
  std::vector<c10::IValue> items;
  for (Value element : list.getElements())
    items.push_back(makeOperand(element));
  bool hasNone = llvm::any_of(items, [](const c10::IValue &item) { return item.isNone(); });
  c10::TypePtr type = c10::TensorType::get();
  c10::impl::GenericList values(hasNone ? c10::OptionalType::create(type) : type);
  for (c10::IValue &item : items)
    values.push_back(item);
  return values;
}

std::vector<c10::IValue> OperatorCall::makeOperands(uint64_t seed) const {
  at::manual_seed(seed);
  std::vector<c10::IValue> operands;
  for (Value operand : call->getOperands())
    operands.push_back(makeOperand(operand));
  return operands;
}

std::vector<c10::IValue> OperatorCall::run(std::vector<c10::IValue> operands) const {
  torch::jit::Stack stack(std::move(operands));
  findOperator(op().getName())->getOperation()(stack);
  return stack;
}

} // namespace cleave
