//===- TorchScriptImporter.cpp - Graphs to IR, node by node ---------------===//
#include "frontend/TorchScriptImporter.h"
#include "frontend/TypeConversion.h"
#include "ir/Interpret.h"
#include "ir/OperatorDialect.h"
#include "mlir/IR/Matchers.h"
#include <sstream>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

using namespace mlir;

namespace cleave {

/// Integer tensors up to this size have their elements in the IR, since size arithmetic may run through them.
static constexpr int64_t kMostKnownElements = 16;

static std::string join(const std::string &path, const std::string &name) {
  return path.empty() ? name : path + "." + name;
}

Location TorchScriptImporter::location() const {
  StringRef path = frames.empty() ? "" : StringRef(frames.back().path);
  return NameLoc::get(b.getStringAttr(path));
}

InFlightDiagnostic TorchScriptImporter::error() { return mlir::emitError(location()); }

Value TorchScriptImporter::constant(Attribute value, Type type) {
  return b.create<ConstantOp>(location(), type, value);
}

void TorchScriptImporter::collectWeights(const c10::IValue &module, const std::string &path) {
  auto object = module.toObject();
  auto type = object->type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const c10::IValue &value = object->getSlot(i);
    std::string name = join(path, type->getAttributeName(i));
    if (value.isTensor() && value.toTensor().defined())
      weights.add(name, type->is_parameter(i) ? "parameter" : "buffer", value.toTensor());
    else if (value.isObject() && value.toObject()->type()->is_module())
      collectWeights(value, name);
  }
}

Value TorchScriptImporter::parameter(const std::string &unique, const at::Tensor &tensor) {
  Value &known = parameters[unique];
  if (known)
    return known;
  // Shards hold weights row-major, whatever strides the model saw them with.
  RankedTensorType type = tensorTypeOf(tensor, b.getContext());
  if (type)
    type = RankedTensorType::get(type.getShape(), type.getElementType());
  if (!type)
    return {};
  // At the function's start, behind the parameters before it, so that every region sees it.
  OpBuilder::InsertionGuard guard(b);
  if (lastParameter) {
    b.setInsertionPointAfter(lastParameter);
  } else {
    Region *region = b.getInsertionBlock()->getParent();
    while (!isa<func::FuncOp>(region->getParentOp()))
      region = region->getParentRegion();
    b.setInsertionPointToStart(&region->front());
  }
  const WeightTable::Entry *entry = weights.find(unique);
  DenseI64ArrayAttr value;
  if (tensor.dim() <= 1 && tensor.numel() <= kMostKnownElements && tensor.scalar_type() == at::kLong)
    value = b.getDenseI64ArrayAttr(
        ArrayRef<int64_t>(tensor.contiguous().const_data_ptr<int64_t>(), size_t(tensor.numel())));
  // Parameters and buffers are what training changes.
  FloatAttr number;
  if (entry->role == "constant" && tensor.dim() == 0 && at::isFloatingType(tensor.scalar_type()))
    number = b.getF64FloatAttr(tensor.item<double>());
  StringRef owner = StringRef(unique).rsplit('.').first;
  SmallVector<StringRef> aliases(entry->aliases.begin(), entry->aliases.end());
  lastParameter = b.create<ParamOp>(NameLoc::get(b.getStringAttr(owner)), type, unique,
                                    aliases.empty() ? ArrayAttr() : b.getStrArrayAttr(aliases), entry->role,
                                    value, number);
  return known = lastParameter->getResult(0);
}

FailureOr<SmallVector<Value>> TorchScriptImporter::importMethod(const c10::IValue &module,
                                                                const std::string &method,
                                                                ArrayRef<Value> arguments) {
  auto graph = torch::jit::toGraphFunction(module.toObject()->type()->getMethod(method)).graph();
  SmallVector<Binding> bound{Object{module, ""}};
  llvm::append_range(bound, arguments);
  auto results = importGraph(*graph, bound, Frame{"", ""});
  if (failed(results))
    return failure();
  SmallVector<Value> values;
  for (Binding &result : *results)
    if (auto *value = std::get_if<Value>(&result))
      values.push_back(lists.current(*value));
    else
      return error() << "forward returns a module; expected tensors, or tuples, lists and dicts of them";
  return values;
}

FailureOr<SmallVector<TorchScriptImporter::Binding>>
TorchScriptImporter::importGraph(const torch::jit::Graph &graph, ArrayRef<Binding> arguments, Frame frame) {
  if (frames.size() > 200)
    return error() << "calls are nested more than 200 deep; a recursive model cannot be compiled";
  Scope scope;
  for (auto [input, argument] : llvm::zip(graph.inputs(), arguments))
    scope[input] = argument;
  bool isModuleCall = frames.empty() || frames.back().path != frame.path;
  frames.push_back(std::move(frame));
  if (failed(importBlock(graph.block(), scope)))
    return failure();
  SmallVector<Binding> results;
  for (const torch::jit::Value *output : graph.outputs()) {
    Binding &result = scope.at(output);
    auto *value = std::get_if<Value>(&result);
    // A tracer that marks module outputs has done so inside; else what escapes the module is offered.
    if (value && isModuleCall && frames.back().boundaries == 0 && isTensorLike(value->getType()) &&
        !frames.back().path.empty())
      result = b.create<BoundaryOp>(location(), value->getType(), *value, frames.back().path,
                                    int64_t(results.size()))
                   .getResult();
    results.push_back(result);
  }
  frames.pop_back();
  return results;
}

LogicalResult TorchScriptImporter::importBlock(const torch::jit::Block *block, Scope &scope) {
  for (Node *node : const_cast<torch::jit::Block *>(block)->nodes()) {
    // libtorch's own checks, and lookups of what a damaged graph does not define. Here since the module path
    // is known.
    try {
      if (failed(importNode(node, scope)))
        return failure();
    } catch (const std::exception &e) {
      return error() << "has " << node->kind().toQualString()
                     << ", which cannot be read: " << StringRef(e.what()).split('\n').first;
    }
  }
  return success();
}

LogicalResult TorchScriptImporter::importNode(Node *node, Scope &scope) {
  switch (node->kind()) {
  case c10::prim::Constant:
    return importConstant(node, scope);
  case c10::prim::GetAttr:
    return importGetAttr(node, scope);
  case c10::prim::CallMethod:
    return importCall(node, scope);
  case c10::prim::CallFunction:
    return importFunctionCall(node, scope);
  case c10::prim::If:
    return importIf(node, scope);
  case c10::prim::Loop:
    return importLoop(node, scope);
  case c10::prim::TupleConstruct:
  case c10::prim::ListConstruct:
  case c10::prim::DictConstruct:
  case c10::prim::TupleUnpack:
  case c10::prim::ListUnpack:
    return importConstruct(node, scope);
  case c10::prim::unchecked_cast:
    scope[node->output()] = scope.at(node->input());
    return success();
  case c10::prim::Uninitialized:
    scope[node->output()] = constant(b.getUnitAttr(), NoneType::get(b.getContext()));
    return success();
  case c10::prim::SetAttr:
    return error()
           << "sets attribute " << node->s(c10::attr::name)
           << ", which would keep state between calls; expected a model without state, or return the value";
  case c10::aten::alias:
    return importBoundary(node, scope);
  default:
    return importOperator(node, scope);
  }
}

/// `QInt8`, `Float (Sparse)`.
static std::string describe(const at::Tensor &tensor) {
  std::ostringstream text;
  text << tensor.scalar_type();
  if (tensor.layout() != at::kStrided)
    text << " (" << tensor.layout() << ")";
  return text.str();
}

LogicalResult TorchScriptImporter::importConstant(Node *node, Scope &scope) {
  torch::jit::Value *output = node->output();
  if (output->type()->kind() == c10::TypeKind::FunctionType) {
    scope[output] = Object{c10::IValue(), ""};
    return success();
  }
  auto value = torch::jit::toIValue(output);
  if (!value)
    return error()
           << "holds a constant of type " << output->type()->annotation_str()
           << ", which cannot be read; expected tensors, scalars, strings, devices, None, or lists of these";
  if (value->isTensor()) {
    Value tensor = parameter(weights.addConstant(value->toTensor()), value->toTensor());
    if (!tensor)
      return error() << "holds a constant tensor of dtype " << describe(value->toTensor())
                     << ", which has no type in the IR";
    scope[output] = tensor;
    return success();
  }
  Attribute attribute = toAttribute(*value, b.getContext());
  if (!attribute)
    return error() << "holds a constant of type " << output->type()->annotation_str()
                   << ", expected a plain value";
  scope[output] = constant(attribute, convertType(output->type(), b.getContext()));
  return success();
}

FailureOr<TorchScriptImporter::Binding> TorchScriptImporter::bindAttribute(const c10::IValue &value,
                                                                           const std::string &path) {
  if (value.isObject() || value.isModule())
    return Binding(Object{value, path});
  if (value.isTensor() && !value.toTensor().defined())
    return Binding(constant(b.getUnitAttr(), NoneType::get(b.getContext())));
  if (value.isTensor()) {
    if (Value tensor = parameter(weights.add(path, "buffer", value.toTensor()), value.toTensor()))
      return Binding(tensor);
    return error() << path << " is a tensor of dtype " << describe(value.toTensor())
                   << ", which has no type in the IR";
  }
  Type type = convertType(value.type(), b.getContext());
  if (Attribute attribute = toAttribute(value, b.getContext()))
    return Binding(constant(attribute, type));
  if (value.isList() || value.isTuple() || value.isGenericDict())
    return bindItems(value, type, path);
  return error() << "attribute " << path << " is a " << value.type()->annotation_str()
                 << ", expected a tensor, a module or a plain value";
}

FailureOr<TorchScriptImporter::Binding> TorchScriptImporter::bindItems(const c10::IValue &value, Type type,
                                                                       const std::string &path) {
  SmallVector<Value> items;
  auto add = [&](const c10::IValue &item, const std::string &name) -> LogicalResult {
    auto bound = bindAttribute(item, join(path, name));
    if (failed(bound))
      return failure();
    auto *known = std::get_if<Value>(&*bound);
    if (!known)
      return error() << "attribute " << path << " holds modules, expected tensors and plain values";
    items.push_back(*known);
    return success();
  };
  if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict()) {
      std::string key = entry.key().isString() ? entry.key().toStringRef() : std::to_string(items.size() / 2);
      if (failed(add(entry.key(), key)) || failed(add(entry.value(), key)))
        return failure();
    }
    return Binding(b.create<DictOp>(location(), type, items).getResult());
  }
  auto values =
      value.isList() ? value.toListRef() : c10::ArrayRef<c10::IValue>(value.toTupleRef().elements());
  for (const c10::IValue &item : values)
    if (failed(add(item, std::to_string(items.size()))))
      return failure();
  if (value.isTuple())
    return Binding(b.create<TupleOp>(location(), type, items).getResult());
  return Binding(b.create<ListOp>(location(), type, items).getResult());
}

LogicalResult TorchScriptImporter::importGetAttr(Node *node, Scope &scope) {
  auto *object = std::get_if<Object>(&scope.at(node->input()));
  if (!object || !object->value.isObject())
    return error() << "reads attribute " << node->s(c10::attr::name)
                   << " of a value that is made while running; "
                   << "expected an attribute of a module";
  std::string name = node->s(c10::attr::name);
  if (!object->value.toObject()->type()->hasAttribute(name))
    return error() << "reads attribute " << name << ", which "
                   << (object->path.empty() ? "the model" : object->path) << " does not have";
  auto bound = bindAttribute(object->value.toObject()->getAttr(name), join(object->path, name));
  if (failed(bound))
    return failure();
  scope[node->output()] = *bound;
  return success();
}

LogicalResult TorchScriptImporter::importCall(Node *node, Scope &scope) {
  auto *object = std::get_if<Object>(&scope.at(node->input(0)));
  if (!object || !object->value.isObject())
    return error() << "calls " << node->s(c10::attr::name)
                   << " of an object that is made while running; expected a "
                   << "module of the model";
  SmallVector<Binding> arguments;
  for (const torch::jit::Value *input : node->inputs())
    arguments.push_back(scope.at(input));
  const Frame &caller = frames.back();
  // A method of the caller itself stays in its frame; a submodule's path continues the path of this very
  // call.
  std::string path = object->path == caller.objectPath ? caller.path : object->path;
  StringRef rest = object->path;
  if (path != caller.path) {
    if (caller.objectPath.empty() ? !caller.path.empty() : rest.consume_front(caller.objectPath + "."))
      path = join(caller.path, rest.str());
    unsigned count = ++calls[path];
    if (count > 1)
      path += "#" + std::to_string(count);
  }
  auto *method = object->value.toObject()->type()->findMethod(node->s(c10::attr::name));
  auto *code = method ? torch::jit::tryToGraphFunction(*method) : nullptr;
  if (!code)
    return error() << "calls " << node->s(c10::attr::name) << " of " << object->path << ", a "
                   << object->value.type()->annotation_str()
                   << ", which is no TorchScript; expected a module of the "
                   << "model";
  if (code->graph()->inputs().size() != arguments.size() ||
      code->graph()->outputs().size() != node->outputs().size())
    return error() << "calls " << node->s(c10::attr::name) << " of " << object->path << " with "
                   << arguments.size() << " arguments, expected " << code->graph()->inputs().size();
  auto results = importGraph(*code->graph(), arguments, Frame{path, object->path});
  if (failed(results))
    return failure();
  for (auto [output, result] : llvm::zip(node->outputs(), *results))
    scope[output] = result;
  return success();
}

LogicalResult TorchScriptImporter::importFunctionCall(Node *node, Scope &scope) {
  auto type = node->input(0)->type()->cast<c10::FunctionType>();
  auto *code = type ? torch::jit::tryToGraphFunction(*type->function()) : nullptr;
  if (!code)
    return error() << "calls a " << node->input(0)->type()->annotation_str()
                   << ", which is no TorchScript; expected a "
                   << "scripted function";
  SmallVector<Binding> arguments;
  for (const torch::jit::Value *input : node->inputs().slice(1))
    arguments.push_back(scope.at(input));
  Frame frame = frames.back();
  frame.boundaries = 0;
  if (code->graph()->inputs().size() != arguments.size() ||
      code->graph()->outputs().size() != node->outputs().size())
    return error() << "calls " << type->function()->name() << " with " << arguments.size()
                   << " arguments, expected " << code->graph()->inputs().size();
  auto results = importGraph(*code->graph(), arguments, frame);
  if (failed(results))
    return failure();
  for (auto [output, result] : llvm::zip(node->outputs(), *results))
    scope[output] = result;
  return success();
}

FailureOr<Value> TorchScriptImporter::valueOf(const torch::jit::Value *value, Scope &scope, Node *user) {
  Binding &bound = scope.at(value);
  if (auto *known = std::get_if<Value>(&bound))
    return lists.current(*known);
  const Object &object = std::get<Object>(bound);
  if (Value packed = importPacked(object))
    return packed;
  std::string what = object.value.isObject() ? object.path + ", a " + object.value.type()->annotation_str()
                                             : std::string("a function");
  return error() << user->kind().toQualString() << " takes " << what
                 << ", as a value; expected tensors, scalars or "
                 << "lists";
}

FailureOr<SmallVector<Value>> TorchScriptImporter::operandsOf(Node *node, Scope &scope) {
  SmallVector<Value> operands;
  for (const torch::jit::Value *input : node->inputs()) {
    auto value = valueOf(input, scope, node);
    if (failed(value))
      return failure();
    operands.push_back(*value);
  }
  return operands;
}

void TorchScriptImporter::bindResults(Node *node, Scope &scope, Operation *op) {
  SmallVector<Value> results(op->getResults());
  SmallVector<Value> folded;
  if (succeeded(b.tryFold(op, folded)) && !folded.empty()) {
    op->erase();
    results = folded;
  }
  for (auto [output, result] : llvm::zip(node->outputs(), results))
    scope[output] = result;
}

SmallVector<Type> TorchScriptImporter::resultTypes(const Node *node) {
  SmallVector<Type> types;
  for (const torch::jit::Value *output : node->outputs())
    types.push_back(convertType(output->type(), b.getContext()));
  return types;
}

LogicalResult TorchScriptImporter::importConstruct(Node *node, Scope &scope) {
  auto operands = operandsOf(node, scope);
  if (failed(operands))
    return failure();
  SmallVector<Type> types = resultTypes(node);
  Operation *op = nullptr;
  switch (node->kind()) {
  case c10::prim::TupleConstruct:
    op = b.create<TupleOp>(location(), types[0], *operands);
    break;
  case c10::prim::ListConstruct:
    op = b.create<ListOp>(location(), types[0], *operands);
    break;
  case c10::prim::DictConstruct:
    op = b.create<DictOp>(location(), types[0], *operands);
    break;
  default:
    op = b.create<UnpackOp>(location(), types, operands->front());
  }
  // What it holds may be changed by others' name from here on.
  for (const torch::jit::Value *input : node->inputs())
    lists.share(std::get<Value>(scope.at(input)));
  if (isa<ListOp, DictOp>(op)) {
    scope[node->output()] = op->getResult(0);
    lists.own(op->getResult(0));
  } else {
    bindResults(node, scope, op);
  }
  return success();
}

LogicalResult TorchScriptImporter::importBoundary(Node *node, Scope &scope) {
  auto value = valueOf(node->input(), scope, node);
  if (failed(value))
    return failure();
  Frame &frame = frames.back();
  if (frame.path.empty())
    scope[node->output()] = *value;
  else
    scope[node->output()] =
        b.create<BoundaryOp>(location(), value->getType(), *value, frame.path, frame.boundaries++)
            .getResult();
  return success();
}

LogicalResult TorchScriptImporter::importListChange(Node *node, Scope &scope) {
  auto operands = operandsOf(node, scope);
  if (failed(operands))
    return failure();
  Value list = std::get<Value>(scope.at(node->input(0)));
  const c10::FunctionSchema &schema = node->schema();
  std::string name =
      irNameOf(schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name()));
  Value item;
  if (!lists.isOwned(list))
    return error() << name << " changes a list or dict that another value may hold; make a new one instead";
  for (const torch::jit::Value *input : node->inputs().slice(1))
    lists.share(std::get<Value>(scope.at(input)));
  if (failed(lists.change(name, list, *operands, b, location(), item)))
    return error() << name
                   << " changes a list or dict of which only running tells the content; expected one whose "
                   << "length, positions and keys are known when compiling";
  for (const torch::jit::Value *output : node->outputs())
    scope[output] = item ? item : list;
  return success();
}

LogicalResult TorchScriptImporter::importOperator(Node *node, Scope &scope) {
  if (Lists::isChange(node))
    return importListChange(node, scope);
  const torch::jit::Operator *callee = node->maybeOperator();
  std::string name = node->kind().toQualString();
  if (!callee)
    return error() << "calls " << name << ", which is no known operator; load its library with --library";
  const c10::FunctionSchema &schema = callee->schema();
  name = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  auto operands = operandsOf(node, scope);
  if (failed(operands))
    return failure();
  std::string irName = irNameOf(name);
  if (!findSchema(irName))
    return error() << "calls " << name << ", which the operator registry does not have";
  bindResults(node, scope, OperatorOp::create(b, location(), irName, *operands, resultTypes(node)));
  return success();
}

} // namespace cleave
