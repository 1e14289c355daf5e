//===- CallBuilder.cpp - Calls of a backward rule as operations -----------===//
#include "ir/autograd/CallBuilder.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"

using namespace mlir;

namespace cleave {

c10::ArrayRef<c10::IValue> itemsOf(const c10::IValue &aggregate) {
  return aggregate.isTuple() ? c10::ArrayRef<c10::IValue>(aggregate.toTupleRef().elements())
                             : aggregate.toListRef();
}

bool isDifferentiable(const c10::IValue &value) {
  return value.isTensor() && value.toTensor().defined() &&
         (value.toTensor().is_floating_point() || value.toTensor().is_complex());
}

const c10::IValue *CallBuilder::exampleOf(Value value) const {
  auto known = samples.runs.front().values.find(value);
  return known == samples.runs.front().values.end() ? nullptr : &known->second;
}

Value CallBuilder::materialize(TensorRef tensor) {
  return tensor.item ? unpack(tensor.value, itemsOf(*exampleOf(tensor.value)).size())[*tensor.item]
                     : tensor.value;
}

/// The IR's type of a constant, for which toAttribute gives the value.
static Type typeOfConstant(const c10::IValue &value, MLIRContext *context) {
  Builder b(context);
  if (value.isNone())
    return b.getNoneType();
  if (value.isBool())
    return b.getI1Type();
  if (value.isInt())
    return b.getI64Type();
  if (value.isDouble())
    return b.getF64Type();
  if (value.isString())
    return StringType::get(context);
  if (value.isDevice())
    return cleave::DeviceType::get(context);
  if (value.isBoolList())
    return ListType::get(context, b.getI1Type());
  if (value.isDoubleList())
    return ListType::get(context, b.getF64Type());
  if (value.isIntList())
    return ListType::get(context, b.getI64Type());
  return cleave::AnyType::get(context);
}

Value CallBuilder::constant(Type type, Attribute value) {
  return run(b.create<ConstantOp>(location, type, value).getOperation())->getResult(0);
}

Value CallBuilder::call(StringRef irName, ValueRange operands) {
  return run(OperatorOp::create(b, location, irName, operands, UnknownTensorType::get(b.getContext())))
      ->getResult(0);
}

ValueRange CallBuilder::unpack(Value aggregate, unsigned length) {
  SmallVector<Type> types(length, UnknownTensorType::get(b.getContext()));
  return run(b.create<UnpackOp>(location, types, aggregate).getOperation())->getResults();
}

Value CallBuilder::sum(Value left, Value right) {
  return call("aten.add.Tensor", {left, right, constant(b.getI64Type(), b.getI64IntegerAttr(1))});
}

Value CallBuilder::size(const RuleSize &size, ValueOf valueOf) {
  const SymbolicDim &dim = size.expression;
  if (size.tensor.source != RuleTensor::Source::Absent)
    return run(OperatorOp::create(
                   b, location, "aten.size.int",
                   {valueOf(size.tensor), constant(b.getI64Type(), b.getI64IntegerAttr(size.dim))},
                   b.getI64Type()))
        ->getResult(0);
  if (auto number = dim.asConstant())
    return constant(b.getI64Type(), b.getI64IntegerAttr(*number));
  return run(b.create<SizeOp>(location, b.getI64Type(), dim.str()).getOperation())->getResult(0);
}

Value CallBuilder::list(Type element, ValueRange items) {
  return run(b.create<ListOp>(location, ListType::get(b.getContext(), element), items).getOperation())
      ->getResult(0);
}

Value CallBuilder::number(const RuleOperand &operand, ValueOf valueOf) {
  if (operand.kind == RuleOperand::Kind::Size)
    return size(operand.sizes[0], valueOf);
  Value number = constant(b.getF64Type(), b.getF64FloatAttr(operand.constant.toDouble()));
  if (operand.kind == RuleOperand::Kind::Constant)
    return number;
  Value denominator =
      run(OperatorOp::create(b, location, "aten.Float.int", size(operand.sizes[0], valueOf), b.getF64Type()))
          ->getResult(0);
  return run(OperatorOp::create(b, location, "aten.div.float", {number, denominator}, b.getF64Type()))
      ->getResult(0);
}

Value CallBuilder::asTensor(Value number, at::ScalarType dtype) {
  Value none = constant(b.getNoneType(), b.getUnitAttr());
  Value code = constant(b.getI64Type(), b.getI64IntegerAttr(int64_t(dtype)));
  return call("aten.scalar_tensor", {number, code, none, none, none});
}

Value CallBuilder::one(at::ScalarType dtype) {
  return asTensor(constant(b.getF64Type(), b.getF64FloatAttr(1)), dtype);
}

Value CallBuilder::zerosOfChannels(Value tensor) {
  Value dim = constant(b.getI64Type(), b.getI64IntegerAttr(1)),
        none = constant(b.getNoneType(), b.getUnitAttr());
  Value channels =
      run(OperatorOp::create(b, location, "aten.size.int", {tensor, dim}, b.getI64Type()))->getResult(0);
  return call("aten.new_zeros", {tensor, list(b.getI64Type(), channels), none, none, none, none});
}

/// The overload of an operator that takes a number in the place of tensor `operand`; null if there is none.
static const OperatorSchema *overloadWithNumber(const OperatorSchema &schema, size_t operand) {
  const StringRef base = StringRef(schema.irName).take_until([](char c) { return c == '.'; });
  const StringRef name = StringRef(schema.irName).drop_front(base.size() + 1).split('.').first;
  const std::string prefix = (base + "." + name).str();
  auto all = allSchemas();
  auto first = llvm::lower_bound(all, prefix, [](const OperatorSchema *candidate, const std::string &text) {
    return candidate->irName < text;
  });
  for (; first != all.end() && StringRef((*first)->irName).starts_with(prefix); ++first) {
    const OperatorSchema &candidate = **first;
    const StringRef rest = StringRef(candidate.irName).drop_front(prefix.size());
    if ((!rest.empty() && !rest.starts_with(".")) || candidate.arguments.size() != schema.arguments.size() ||
        candidate.results != schema.results || candidate.writesAnyArgument())
      continue;
    bool isIt = true;
    for (size_t i = 0; i < schema.arguments.size(); ++i)
      isIt &= i == operand
                  ? candidate.arguments[i].type == "Scalar" || candidate.arguments[i].type == "number"
                  : candidate.arguments[i].type == schema.arguments[i].type;
    if (isIt)
      return &candidate;
  }
  return nullptr;
}

void CallBuilder::build(const RuleCall &call, llvm::function_ref<Value(RuleTensor)> valueOf,
                        SmallVector<Value> &results) {
  const OperatorSchema *schema = findSchema(call.irName);
  Type tensor = UnknownTensorType::get(b.getContext());
  auto valueOrNone = [&](RuleTensor of) {
    Value value = valueOf(of);
    return value ? value : constant(b.getNoneType(), b.getUnitAttr());
  };
  SmallVector<Value> operands;
  for (auto [i, operand] : llvm::enumerate(call.operands)) {
    if (operand.asTensor) {
      Value made = number(operand, valueOf);
      const OperatorSchema *scalar = overloadWithNumber(*schema, i);
      operands.push_back(scalar ? made : asTensor(made, *operand.asTensor));
      schema = scalar ? scalar : schema;
    } else if (operand.kind == RuleOperand::Kind::Tensor) {
      operands.push_back(valueOrNone(operand.tensors[0]));
    } else if (operand.kind == RuleOperand::Kind::Tensors) {
      const bool isOptional = schema->arguments[i].type == "List[Optional[Tensor]]";
      operands.push_back(list(isOptional ? OptionalType::get(b.getContext(), tensor) : tensor,
                              llvm::map_to_vector(operand.tensors, valueOrNone)));
    } else if (operand.kind == RuleOperand::Kind::Size || operand.kind == RuleOperand::Kind::Ratio) {
      operands.push_back(number(operand, valueOf));
    } else if (operand.kind == RuleOperand::Kind::Sizes) {
      operands.push_back(list(b.getI64Type(), llvm::map_to_vector(operand.sizes, [&](const RuleSize &of) {
                                return size(of, valueOf);
                              })));
    } else {
      operands.push_back(constant(typeOfConstant(operand.constant, b.getContext()),
                                  toAttribute(operand.constant, b.getContext())));
    }
  }
  SmallVector<Type> types;
  for (std::optional<unsigned> length : call.listLengths)
    types.push_back(length ? ListType::get(b.getContext(), tensor) : tensor);
  // A plan may not call a batch norm that writes its statistics, although autograd records no other.
  if (StringRef functional = semanticsOf(schema->irName).functionalBatchNorm; !functional.empty()) {
    schema = findSchema(functional);
    for (size_t statistics : {3, 4})
      if (isa<NoneType>(operands[statistics].getType()))
        operands[statistics] = zerosOfChannels(operands[0]);
    types.resize(schema->results.size(), tensor);
  }
  Operation *op = run(OperatorOp::create(b, location, schema->irName, operands, types));
  for (auto [result, length] : llvm::zip(op->getResults(), call.listLengths))
    if (length)
      llvm::append_range(results, unpack(result, *length));
    else
      results.push_back(result);
}

void CallBuilder::build(const BackwardRule &rule, size_t first, size_t last,
                        llvm::function_ref<Value(RuleTensor)> valueOf,
                        std::vector<SmallVector<Value>> &made) {
  for (size_t i = first; i < last; ++i)
    build(
        rule.calls[i],
        [&](RuleTensor of) {
          return of.source == RuleTensor::Source::Call ? made[of.call][of.index] : valueOf(of);
        },
        made.emplace_back());
}

} // namespace cleave
