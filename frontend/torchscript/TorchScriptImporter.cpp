//===- TorchScriptImporter.cpp - TorchScript graphs to IR, node by node ---===//
#include "frontend/torchscript/TorchScriptImporter.h"
#include "frontend/torchscript/TypeConversion.h"
#include "ir/IValueConversion.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

using namespace mlir;

namespace cleave {

/// An attribute of modules whose outputs cleave-trace has marked (cleave_trace/marking.py).
static constexpr char kMarkedAttribute[] = "cleave_outputs_are_marked";

Location TorchScriptImporter::location() const {
  StringRef path = frames.empty() ? "" : StringRef(frames.back().path);
  return NameLoc::get(b.getStringAttr(path));
}

InFlightDiagnostic TorchScriptImporter::error() { return mlir::emitError(location()); }

Value TorchScriptImporter::constant(Attribute value, Type type) {
  return b.create<ConstantOp>(location(), type, value);
}

FailureOr<SmallVector<Value>> TorchScriptImporter::importMethod(const c10::IValue &module,
                                                                const std::string &method,
                                                                ArrayRef<Value> arguments) {
  auto graph = torch::jit::toGraphFunction(module.toObject()->type()->getMethod(method)).graph();
  SmallVector<Binding> bound{Object{module, ""}};
  llvm::append_range(bound, arguments);
  if (failed(makeStates()))
    return failure();
  auto results = importGraph(*graph, bound, Frame{"", ""});
  if (failed(results))
    return failure();
  // An attribute found to be set only now has no state; this import is then repeated.
  for (auto [attribute, value] : llvm::zip(attributes, states))
    b.create<WriteStateOp>(NameLoc::get(b.getStringAttr(ownerPath(attribute.first))), attribute.first,
                           lists.current(value));
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
    // cleave-trace marks module outputs inside the module, those that are read; of other archives, the values
    // that leave a module are taken for its outputs.
    if (value && isModuleCall && !frames.back().isMarked && isTensorLike(value->getType()) &&
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
    // Catches libtorch's own checks, and lookups in a damaged graph. Done here, where the module path is
    // known.
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
    return importSetAttr(node, scope);
  case c10::aten::alias:
    return importBoundary(node, scope);
  // Prints of a model are for its developers; a plan drops them.
  case c10::aten::warn:
  case c10::prim::Print:
    return success();
  default:
    return importOperator(node, scope);
  }
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
      return error() << "holds a constant, " << describeUntyped(value->toTensor());
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
  // A call of the caller's own method stays in its frame; a submodule's path continues that of this call.
  // call.
  std::string path = object->path == caller.objectPath ? caller.path : object->path;
  StringRef rest = object->path;
  if (path != caller.path) {
    if (caller.objectPath.empty() ? !caller.path.empty() : rest.consume_front(caller.objectPath + "."))
      path = joinPath(caller.path, rest.str());
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
  const bool isMarked = object->value.toObject()->type()->hasAttribute(kMarkedAttribute);
  auto results = importGraph(*code->graph(), arguments, Frame{path, object->path, isMarked});
  if (failed(results))
    return failure();
  for (auto [output, result] : llvm::zip(node->outputs(), *results))
    scope[output] = result;
  return success();
}

/// True for a call of torch.nn.functional.embedding or embedding_bag with max_norm, which their TorchScript
/// code ignores.
static bool ignoresNorm(const c10::FunctionSchema &schema, StringRef function, ArrayRef<Type> arguments) {
  function.consume_front("__torch__.");
  std::optional<int> index = schema.argumentIndexWithName("max_norm");
  return index && size_t(*index) < arguments.size() && !isa<NoneType>(arguments[*index]) &&
         (function == "torch.nn.functional.embedding" || function == "torch.nn.functional.embedding_bag");
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
  auto types = llvm::map_to_vector(arguments, [&](const Binding &argument) {
    const auto *value = std::get_if<Value>(&argument);
    return value ? value->getType() : Type(NoneType::get(b.getContext()));
  });
  if (ignoresNorm(type->function()->getSchema(), type->function()->qualname().qualifiedName(), types))
    return error() << "calls " << type->function()->name()
                   << " with max_norm, which TorchScript leaves out of scripted "
                   << "code; trace the model, or keep the norms of the weights yourself";
  Frame frame = frames.back();
  frame.isMarked = false;
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
                 << "lists" << remedyForPacked(object.value);
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
  // From here on, its content may be changed under another name.
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
  // Output n of a module has n + 1 marks in a row, since a trace lacks the outputs that nobody reads.
  auto isMark = [](const Node *node) { return node->kind() == c10::aten::alias; };
  auto &uses = node->output()->uses();
  const bool isLast = llvm::none_of(uses, [&](const torch::jit::Use &use) { return isMark(use.user); });
  if (frame.path.empty() || !isLast) {
    scope[node->output()] = *value;
    return success();
  }
  int64_t index = 0;
  for (const Node *mark = node->input()->node(); isMark(mark); mark = mark->input()->node())
    ++index;
  frame.isMarked = true;
  scope[node->output()] =
      b.create<BoundaryOp>(location(), value->getType(), *value, frame.path, index).getResult();
  return success();
}

/// Where the code of the archive has the node: `, in line 12 of code/__torch__.py: d[k] = v`. Empty if that
/// is not known.
static std::string describeSource(const torch::jit::Node *node) {
  constexpr size_t kMaxLength = 80;
  auto place = node->sourceRange().file_line_col();
  if (!place)
    return "";
  const auto &[file, line, column] = *place;
  const std::string whole = node->sourceRange().source()->get_line(line - 1).str();
  const StringRef text = StringRef(whole).trim();
  return ", in line " + std::to_string(line) + " of " + file + ": " +
         (text.size() > kMaxLength ? text.take_front(kMaxLength).str() + "…" : text.str());
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
    return error() << name << " changes a list or dict that another value may hold" << describeSource(node)
                   << "; make a new one instead";
  for (const torch::jit::Value *input : node->inputs().slice(1))
    lists.share(std::get<Value>(scope.at(input)));
  if (failed(lists.change(name, list, *operands, b, location(), item)))
    return error() << name << " changes a list or dict of which only running tells the content"
                   << describeSource(node)
                   << "; expected one whose length, positions and keys are known when compiling";
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
  // Outside of branches, an exception is raised whatever the inputs hold.
  StringAttr message;
  if (semanticsOf(irName).raises && isa<func::FuncOp>(b.getInsertionBlock()->getParentOp()) &&
      matchPattern(operands->front(), m_Constant(&message)))
    return error() << "the model raises \"" << message.getValue()
                   << "\" on such inputs; give some that it takes";
  SmallVector<Type> types = resultTypes(node);
  if (DictEntries entries = dictEntriesOf(irName); entries != DictEntries::None)
    if (Value list = Lists::listEntries(entries, operands->front(), types.front(), b, location())) {
      scope[node->output()] = list;
      lists.own(list);
      return success();
    }
  bindResults(node, scope, OperatorOp::create(b, location(), irName, *operands, types));
  return success();
}

} // namespace cleave
