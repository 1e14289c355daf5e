//===- Arguments.cpp - Inputs and outputs as trees of tensors -------------===//
#include "frontend/torchscript/Arguments.h"
#include "frontend/torchscript/TypeConversion.h"
#include "ir/ExampleShapes.h"
#include "ir/IValueConversion.h"
#include "ir/NearestName.h"
#include "ir/Signature.h"
#include "ir/SymbolicDim.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

namespace {
/// An argument's IR value and its subtree of the input tree.
struct Argument {
  Value value;
  Attribute tree;
};

class ArgumentMaker {
public:
  ArgumentMaker(func::FuncOp function, OpBuilder &builder, const c10::FunctionSchema &schema,
                const ModelInputs &inputs)
      : function(function), b(builder), schema(schema), inputs(inputs) {}

  FailureOr<Argument> make(const std::string &name, const c10::TypePtr &type,
                           const std::optional<c10::IValue> &fallback);
  LogicalResult finish();

private:
  FailureOr<Argument> makeTensor(const std::string &name, const ModelInputs::Tensor &given);
  FailureOr<Argument> makeItems(const std::string &name, const c10::TypePtr &type);
  FailureOr<Argument> makeScalar(const std::string &name, const c10::TypePtr &type, StringRef text);
  RankedTensorType typeOf(const ModelInputs::Tensor &given);
  Argument constant(Attribute value, Type type);
  LogicalResult missing(const std::string &name, const c10::TypePtr &type);
  std::vector<std::string> givenNames() const;
  InFlightDiagnostic error(StringRef name) { return mlir::emitError(location(), "input ") << name << ": "; }
  Location location() { return NameLoc::get(b.getStringAttr("")); }

  const ModelInputs::Tensor *tensorNamed(StringRef name) const {
    auto found = llvm::find_if(inputs.tensors, [&](auto &tensor) { return tensor.name == name; });
    return found == inputs.tensors.end() ? nullptr : &*found;
  }
  /// Items of a list or keys of a dict, in order: the part of given names after `name.`, up to the next dot
  /// if items are nested.
  SmallVector<std::string> itemsOf(const std::string &name, bool isNested = true) const;

  func::FuncOp function;
  OpBuilder &b;
  const c10::FunctionSchema &schema;
  const ModelInputs &inputs;
  llvm::SetVector<StringRef> used;
  std::vector<std::string> wanted;
};
} // namespace

static bool isComposite(const c10::TypePtr &type) {
  return type->cast<c10::TupleType>() || type->cast<c10::ListType>() || type->cast<c10::DictType>();
}

SmallVector<std::string> ArgumentMaker::itemsOf(const std::string &name, bool isNested) const {
  SmallVector<std::string> items;
  auto consider = [&](StringRef given) {
    if (!given.consume_front(name + "."))
      return;
    std::string item = isNested ? given.split('.').first.str() : given.str();
    if (!llvm::is_contained(items, item))
      items.push_back(item);
  };
  for (auto &tensor : inputs.tensors)
    consider(tensor.name);
  for (auto &scalar : inputs.scalars)
    consider(scalar.name);
  return items;
}

Argument ArgumentMaker::constant(Attribute value, Type type) {
  return {b.create<ConstantOp>(location(), type, value),
          nodeTree(b, isa<UnitAttr>(value) ? "none" : "fixed",
                   isa<UnitAttr>(value) ? ArrayRef<Attribute>() : ArrayRef<Attribute>(value))};
}

RankedTensorType ArgumentMaker::typeOf(const ModelInputs::Tensor &given) {
  SmallVector<int64_t> shape(given.shape.begin(), given.shape.end());
  SmallVector<std::string> dims;
  bool isDynamic = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    StringRef name = i < given.dims.size() ? StringRef(given.dims[i]) : StringRef();
    dims.push_back(name.empty() ? std::to_string(shape[i]) : name.str());
    if (name.empty())
      continue;
    shape[i] = ShapedType::kDynamic;
    isDynamic = true;
  }
  Attribute layout = isDynamic ? LayoutAttr::get(b.getContext(), dims, {}) : Attribute();
  return RankedTensorType::get(shape, elementTypeOf(given.dtype, b.getContext()), layout);
}

FailureOr<Argument> ArgumentMaker::makeTensor(const std::string &name, const ModelInputs::Tensor &given) {
  used.insert(given.name);
  if (!elementTypeOf(given.dtype, b.getContext()))
    return error(name) << "found dtype " << c10::toString(given.dtype) << ", which has no type in the IR";
  unsigned leaf = function.getNumArguments();
  SmallVector<NamedAttribute> attributes{b.getNamedAttr(kNameAttr, b.getStringAttr(name))};
  if (!given.role.empty())
    attributes.push_back(b.getNamedAttr(kRoleAttr, b.getStringAttr(given.role)));
  function.insertArgument(leaf, typeOf(given), b.getDictionaryAttr(attributes), location());
  // The program is imported with unknown tensors; inference finds their types.
  return Argument{function.getArgument(leaf), leafTree(b, leaf)};
}

FailureOr<Argument> ArgumentMaker::makeScalar(const std::string &name, const c10::TypePtr &type,
                                              StringRef text) {
  Type irType = convertType(type, b.getContext());
  int64_t integer;
  double real;
  switch (type->kind()) {
  case c10::TypeKind::IntType:
    if (!text.getAsInteger(0, integer))
      return constant(b.getI64IntegerAttr(integer), irType);
    return error(name) << "found \"" << text << "\", expected an integer";
  case c10::TypeKind::NumberType:
    if (!text.getAsInteger(0, integer))
      return constant(b.getI64IntegerAttr(integer), irType);
    [[fallthrough]];
  case c10::TypeKind::FloatType:
    if (!text.getAsDouble(real))
      return constant(b.getF64FloatAttr(real), irType);
    return error(name) << "found \"" << text << "\", expected a number";
  case c10::TypeKind::BoolType:
    if (text.equals_insensitive("true") || text.equals_insensitive("false"))
      return constant(b.getBoolAttr(text.equals_insensitive("true")), irType);
    return error(name) << "found \"" << text << "\", expected true or false";
  case c10::TypeKind::StringType:
    return constant(b.getStringAttr(text), irType);
  default:
    return error(name) << "is a " << type->annotation_str() << ", found \"" << text
                       << "\", expected a tensor; give its type, " << name << ":DTYPE[SIZES]";
  }
}

FailureOr<Argument> ArgumentMaker::makeItems(const std::string &name, const c10::TypePtr &type) {
  SmallVector<Value> values;
  SmallVector<Attribute> trees;
  auto add = [&](const std::string &item, const c10::TypePtr &itemType) -> LogicalResult {
    auto made = make(name + "." + item, itemType, std::nullopt);
    if (failed(made))
      return failure();
    values.push_back(made->value);
    trees.push_back(made->tree);
    return success();
  };
  Type irType = convertType(type, b.getContext());
  if (auto tuple = type->cast<c10::TupleType>()) {
    for (size_t i = 0; i < tuple->elements().size(); ++i)
      if (failed(add(std::to_string(i), tuple->elements()[i])))
        return failure();
    return Argument{b.create<TupleOp>(location(), irType, values), nodeTree(b, "tuple", trees)};
  }
  if (auto list = type->cast<c10::ListType>()) {
    for (size_t i = 0, count = itemsOf(name).size(); i < count; ++i)
      if (failed(add(std::to_string(i), list->getElementType())))
        return failure();
    return Argument{b.create<ListOp>(location(), irType, values), nodeTree(b, "list", trees)};
  }
  auto dict = type->expect<c10::DictType>();
  bool hasNumbers = dict->getKeyType()->kind() == c10::TypeKind::IntType;
  if (!hasNumbers && dict->getKeyType()->kind() != c10::TypeKind::StringType)
    return error(name) << "is a " << type->annotation_str()
                       << "; expected a dict with strings or integers as keys";
  SmallVector<Attribute> entries;
  SmallVector<Value> elements;
  // A dict of tensors is flat, and its keys may contain dots: {"history.0": x}.
  for (const std::string &key : itemsOf(name, isComposite(dict->getValueType()))) {
    int64_t number = 0;
    // 01 would be the same key as 1.
    if (hasNumbers && (StringRef(key).getAsInteger(10, number) || std::to_string(number) != key))
      return error(name + "." + key) << "found \"" << key << "\" as key of a " << type->annotation_str()
                                     << ", expected an integer";
    if (hasNumbers)
      elements.push_back(b.create<ConstantOp>(location(), b.getI64Type(), b.getI64IntegerAttr(number)));
    else
      elements.push_back(
          b.create<ConstantOp>(location(), StringType::get(b.getContext()), b.getStringAttr(key)));
    if (failed(add(key, dict->getValueType())))
      return failure();
    elements.push_back(values.back());
    entries.append({b.getStringAttr(key), trees.back()});
  }
  return Argument{b.create<DictOp>(location(), irType, elements), nodeTree(b, "dict", entries)};
}

FailureOr<Argument> ArgumentMaker::make(const std::string &name, const c10::TypePtr &type,
                                        const std::optional<c10::IValue> &fallback) {
  if (auto optional = type->cast<c10::OptionalType>()) {
    if (tensorNamed(name) || !itemsOf(name).empty() ||
        llvm::any_of(inputs.scalars, [&](auto &scalar) { return scalar.name == name; }))
      return make(name, optional->getElementType(), fallback);
    wanted.push_back(name);
    return constant(b.getUnitAttr(), NoneType::get(b.getContext()));
  }
  if (isComposite(type) && (!fallback || !itemsOf(name).empty()))
    return makeItems(name, type);
  wanted.push_back(name);
  if (const ModelInputs::Tensor *given = tensorNamed(name)) {
    if (type->kind() == c10::TypeKind::TensorType)
      return makeTensor(name, *given);
    return error(name) << "found a tensor, expected a " << type->annotation_str() << "; give it as --input "
                       << name << "=VALUE";
  }
  for (auto &scalar : inputs.scalars)
    if (scalar.name == name) {
      used.insert(scalar.name);
      return makeScalar(name, type, scalar.text);
    }
  if (fallback)
    if (Attribute value = toAttribute(*fallback, b.getContext()))
      return constant(value, isa<UnitAttr>(value) ? Type(NoneType::get(b.getContext()))
                                                  : convertType(type, b.getContext()));
  return missing(name, type);
}

std::vector<std::string> ArgumentMaker::givenNames() const {
  std::vector<std::string> names;
  for (auto &tensor : inputs.tensors)
    names.push_back(tensor.name);
  for (auto &scalar : inputs.scalars)
    names.push_back(scalar.name);
  return names;
}

/// If an unused given name was probably meant to be `name`, reports that instead.
LogicalResult ArgumentMaker::missing(const std::string &name, const c10::TypePtr &type) {
  for (StringRef given : givenNames()) {
    StringRef head = given.split('.').first;
    bool isKnown = llvm::any_of(schema.arguments(), [&](auto &argument) { return argument.name() == head; });
    if (std::string near = didYouMean(given, name); !isKnown && !near.empty())
      return error(given) << "is no input of forward" << near;
  }
  if (type->kind() == c10::TypeKind::TensorType)
    return error(name)
           << "is missing; forward takes a tensor of this name: give it in --inputs, or as --input " << name
           << ":DTYPE[SIZES]";
  return error(name) << "is missing; forward takes it, of type " << type->annotation_str()
                     << ": give it as --input " << name << "=VALUE";
}

LogicalResult ArgumentMaker::finish() {
  std::vector<std::string> given = givenNames();
  auto extra = llvm::find_if(given, [&](auto &name) { return !used.contains(name); });
  if (extra == given.end())
    return success();
  // An argument with a default is not missing.
  std::vector<std::string> left;
  llvm::copy_if(wanted, std::back_inserter(left), [&](auto &name) { return !used.contains(name); });
  // A list or a dictionary without given items.
  if (wanted.empty())
    for (const c10::Argument &argument : llvm::drop_begin(schema.arguments()))
      wanted.push_back(argument.name());
  std::string near = didYouMean(*extra, left);
  return error(*extra) << "is no input of forward, which takes: " << llvm::join(wanted, ", ")
                       << (near.empty() ? "; leave it out" : near);
}

FailureOr<SmallVector<Value>> makeArguments(func::FuncOp function, OpBuilder &builder,
                                            const c10::FunctionSchema &schema, const ModelInputs &inputs) {
  ArgumentMaker maker(function, builder, schema, inputs);
  SmallVector<Value> values;
  SmallVector<Attribute> trees;
  for (const c10::Argument &argument : llvm::drop_begin(schema.arguments())) {
    auto made = maker.make(argument.name(), argument.type(), argument.default_value());
    if (failed(made))
      return failure();
    values.push_back(made->value);
    trees.append({builder.getStringAttr(argument.name()), made->tree});
  }
  if (failed(maker.finish()))
    return failure();
  function->setAttr(kInputTreeAttr, nodeTree(builder, "dict", trees));
  return values;
}

namespace {
/// Takes a result apart into leaves.
class LeafCollector {
public:
  LeafCollector(OpBuilder &builder) : b(builder) {}
  FailureOr<Attribute> collect(Value value, const std::string &name);
  SmallVector<Value> leaves;
  SmallVector<std::string> names;

private:
  FailureOr<Attribute> collectDict(DictOp dict, const std::string &name);
  OpBuilder &b;
};
} // namespace

FailureOr<Attribute> LeafCollector::collectDict(DictOp dict, const std::string &name) {
  SmallVector<Attribute> entries;
  for (unsigned i = 0; i + 1 < dict.getElements().size(); i += 2) {
    Attribute key;
    matchPattern(dict.getElements()[i], m_Constant(&key));
    auto text = dyn_cast_or_null<StringAttr>(key);
    if (auto number = dyn_cast_or_null<IntegerAttr>(key))
      text = b.getStringAttr(llvm::Twine(number.getInt()));
    if (!text)
      return mlir::emitError(dict.getLoc(), "output ")
             << name << ": found a dict key that is no constant string or integer";
    auto tree = collect(dict.getElements()[i + 1], name + "." + text.str());
    if (failed(tree))
      return failure();
    entries.append({text, *tree});
  }
  return nodeTree(b, "dict", entries);
}

FailureOr<Attribute> LeafCollector::collect(Value value, const std::string &name) {
  if (isTensorLike(value.getType()) && !isa<OptionalType>(value.getType())) {
    leaves.push_back(value);
    names.push_back(name);
    return leafTree(b, leaves.size() - 1);
  }
  if (Attribute fixed; matchPattern(value, m_Constant(&fixed)))
    return isa<UnitAttr>(fixed) ? nodeTree(b, "none", {}) : nodeTree(b, "fixed", fixed);
  Operation *maker = value.getDefiningOp();
  if (auto dict = dyn_cast_or_null<DictOp>(maker))
    return collectDict(dict, name);
  SmallVector<Value> items;
  if (isa_and_nonnull<TupleOp, ListOp>(maker))
    llvm::append_range(items, maker->getOperands());
  else if (auto tuple = dyn_cast<TupleType>(value.getType()))
    llvm::append_range(items, b.create<UnpackOp>(value.getLoc(), tuple.getTypes(), value).getResults());
  else
    return mlir::emitError(value.getLoc(), "output ") << name << " is a " << schemaTypeName(value.getType())
                                                      << " of which only running tells the content; expected "
                                                         "tensors in tuples, lists and dicts of fixed length";
  SmallVector<Attribute> trees;
  for (auto [i, item] : llvm::enumerate(items)) {
    auto tree = collect(item, name + "." + std::to_string(i));
    if (failed(tree))
      return failure();
    trees.push_back(*tree);
  }
  return nodeTree(b, isa<TupleType>(value.getType()) ? "tuple" : "list", trees);
}

LogicalResult returnLeaves(func::FuncOp function, OpBuilder &builder, Value result) {
  LeafCollector collector(builder);
  auto tree = collector.collect(result, "output");
  if (failed(tree))
    return failure();
  bool raises = false;
  function.walk([&](OperatorOp op) { raises |= semanticsOf(op.getName()).raises; });
  if (collector.leaves.empty() && raises)
    return mlir::emitError(function.getLoc(),
                           "the model raises whichever way it takes; give inputs that it takes");
  if (collector.leaves.empty())
    return mlir::emitError(function.getLoc(), "forward returns no tensor; there is nothing to compute");
  for (auto [i, name] : llvm::enumerate(collector.names))
    if (llvm::is_contained(ArrayRef(collector.names).take_front(i), name))
      return mlir::emitError(function.getLoc(), "output ")
             << name << ": two tensors have this name; give one of their keys another";
  builder.create<func::ReturnOp>(function.getLoc(), collector.leaves);
  function->setAttr(kOutputTreeAttr, *tree);
  SmallVector<Type> types;
  for (Value leaf : collector.leaves)
    types.push_back(leaf.getType());
  function.setType(builder.getFunctionType(function.getArgumentTypes(), types));
  for (auto [i, name] : llvm::enumerate(collector.names))
    function.setResultAttr(i, kNameAttr, builder.getStringAttr(name));
  return success();
}

} // namespace cleave
