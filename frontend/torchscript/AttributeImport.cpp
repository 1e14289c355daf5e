//===- AttributeImport.cpp - Attributes of modules to IR ------------------===//
#include "frontend/torchscript/TorchScriptImporter.h"
#include "frontend/torchscript/TypeConversion.h"
#include "ir/IValueConversion.h"
#include <sstream>
#include <torch/csrc/jit/ir/ir.h>

using namespace mlir;

namespace cleave {

std::string joinPath(const std::string &path, const std::string &name) {
  return path.empty() ? name : path + "." + name;
}

std::string describeUntyped(const at::Tensor &tensor) {
  std::ostringstream text;
  if (tensor.layout() != at::kStrided)
    text << "a tensor of dtype " << tensor.scalar_type() << " (" << tensor.layout()
         << "), expected a dense one; store it as to_dense() gives it";
  else if (tensor.is_quantized())
    text << "a quantized tensor of dtype " << tensor.scalar_type()
         << ", expected floats or integers; store it as dequantize() or int_repr() gives it";
  else
    text << "a tensor of dtype " << tensor.scalar_type()
         << ", which has no type in the IR; store it in another dtype";
  return text.str();
}

/// Integer tensors up to this size have their elements in the IR, for size arithmetic.
static constexpr int64_t kMaxKnownElements = 16;

void TorchScriptImporter::collectWeights(const c10::IValue &module, const std::string &path) {
  auto object = module.toObject();
  auto type = object->type();
  objectPaths.try_emplace(object.get(), path);
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const c10::IValue &value = object->getSlot(i);
    std::string name = joinPath(path, type->getAttributeName(i));
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
  // Shards hold weights row-major, whatever their strides in the model.
  RankedTensorType type = tensorTypeOf(tensor, b.getContext());
  if (type)
    type = RankedTensorType::get(type.getShape(), type.getElementType());
  if (!type)
    return {};
  // At the function's start, after earlier parameters, so that every region can use it.
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
  DenseI64ArrayAttr integers;
  if (tensor.dim() <= 1 && tensor.numel() <= kMaxKnownElements && tensor.scalar_type() == at::kLong)
    integers = b.getDenseI64ArrayAttr(
        ArrayRef<int64_t>(tensor.contiguous().const_data_ptr<int64_t>(), size_t(tensor.numel())));
  // Training changes parameters and buffers, so only constants have a number.
  FloatAttr number;
  if (entry->role == "constant" && tensor.dim() == 0 && at::isFloatingType(tensor.scalar_type()))
    number = b.getF64FloatAttr(tensor.item<double>());
  // TorchScript's interpreter treats them as wrapped numbers, also those that tracing made from tensors.
  const bool isWrapped = entry->role == "constant" && tensor.dim() == 0;
  StringRef owner = StringRef(unique).rsplit('.').first;
  SmallVector<StringRef> aliases(entry->aliases.begin(), entry->aliases.end());
  lastParameter = b.create<ParamOp>(NameLoc::get(b.getStringAttr(owner)), type, unique,
                                    aliases.empty() ? ArrayAttr() : b.getStrArrayAttr(aliases), entry->role,
                                    integers, number, isWrapped, ShardingAttr());
  return known = lastParameter->getResult(0);
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
    return error() << path << " is " << describeUntyped(value.toTensor());
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
    auto bound = bindAttribute(item, joinPath(path, name));
    if (failed(bound))
      return failure();
    auto *known = std::get_if<Value>(&*bound);
    if (!known)
      return error() << "attribute " << path << " holds "
                     << (item.isModule() ? "modules" : item.type()->annotation_str())
                     << ", expected tensors and plain values" << remedyForPacked(item);
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
  if (auto known = attributes.find(statePath(*object, name)); known != attributes.end())
    if (size_t index = known - attributes.begin(); index < states.size()) {
      scope[node->output()] = states[index];
      return success();
    }
  auto bound = bindAttribute(object->value.toObject()->getAttr(name), joinPath(object->path, name));
  if (failed(bound))
    return failure();
  scope[node->output()] = *bound;
  return success();
}

StringRef ownerPath(StringRef attribute) {
  return attribute.contains('.') ? attribute.rsplit('.').first : StringRef();
}

std::string TorchScriptImporter::statePath(const Object &object, const std::string &name) {
  return joinPath(objectPaths.try_emplace(object.value.toObject().get(), object.path).first->second, name);
}

LogicalResult TorchScriptImporter::importSetAttr(Node *node, Scope &scope) {
  auto *object = std::get_if<Object>(&scope.at(node->input(0)));
  std::string name = node->s(c10::attr::name);
  if (!object || !object->value.isObject())
    return error() << "sets attribute " << name
                   << " of a value that is made while running; expected an attribute of a module";
  auto type = object->value.toObject()->type();
  if (!type->hasAttribute(name))
    return error() << "sets attribute " << name << ", which " << type->annotation_str() << " does not have";
  auto value = valueOf(node->input(1), scope, node);
  if (failed(value))
    return failure();
  lists.share(std::get<Value>(scope.at(node->input(1))));
  auto known = attributes
                   .insert({statePath(*object, name),
                            {object->value.toObject()->getAttr(name), type->getAttribute(name)}})
                   .first;
  if (size_t index = known - attributes.begin(); index < states.size())
    states[index] = *value;
  return success();
}

LogicalResult TorchScriptImporter::makeStates() {
  for (auto &[path, attribute] : attributes) {
    auto initial = bindAttribute(attribute.initial, path);
    if (failed(initial))
      return failure();
    auto *value = std::get_if<Value>(&*initial);
    if (!value)
      return error() << "sets attribute " << path << ", a module; expected a tensor or a plain value";
    // States are kept row-major, whatever their strides when saved.
    Type type = stateType(states.size()), known = value->getType();
    auto location = NameLoc::get(b.getStringAttr(ownerPath(path)));
    states.push_back(b.create<ReadStateOp>(location, isa<UnknownTensorType>(type) ? known : type, path,
                                           *value,
                                           /*batch_dim=*/nullptr));
  }
  return success();
}

Type TorchScriptImporter::stateType(size_t index) {
  return convertType(attributes.begin()[index].second.type, b.getContext());
}

} // namespace cleave
