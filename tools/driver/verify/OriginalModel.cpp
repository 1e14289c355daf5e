//===- OriginalModel.cpp - Runs the TorchScript module --------------------===//
#include "tools/driver/verify/OriginalModel.h"
#include "frontend/archive/TorchScriptError.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/interpreter.h>

namespace cleave {

OriginalModel::OriginalModel(const TorchScriptFile &file, const plan::Tree &inputTree)
    : module(file.module), inputTree(inputTree) {
  // Runs the model as it is: no fusion, no specialization to the first call's shapes.
  torch::jit::getExecutorMode() = false;
  torch::jit::setGraphExecutorOptimize(false);
}

llvm::Error OriginalModel::findStates(llvm::ArrayRef<std::string> names) {
  for (llvm::StringRef name : names) {
    auto owner = module._ivalue();
    llvm::SmallVector<llvm::StringRef> path;
    name.split(path, '.');
    for (llvm::StringRef part : path) {
      bool isLast = part.end() == name.end();
      if (!owner->type()->hasAttribute(part.str()))
        return llvm::createStringError(
            "state " + name +
            " is no attribute of the original model; the plan is damaged: compile it again");
      c10::IValue value = owner->getAttr(part.str());
      if (isLast)
        states.push_back({name.str(), owner, part.str(), value, value.deepcopy()});
      else if (value.isObject())
        owner = value.toObject();
    }
  }
  return llvm::Error::success();
}

void OriginalModel::resetState() const {
  at::AutoGradMode noGradients(false);
  for (const State &state : states) {
    bool isTensor = state.value.isTensor() && state.value.toTensor().defined();
    if (isTensor)
      state.value.toTensor().copy_(state.copy.toTensor());
    state.owner->setAttr(state.attribute,
                         isTensor ? c10::IValue(state.value.toTensor().detach()) : state.copy.deepcopy());
  }
}

std::vector<runtime::NamedTensor> OriginalModel::stateTensors() const {
  std::vector<runtime::NamedTensor> tensors;
  for (const State &state : states)
    if (c10::IValue value = state.owner->getAttr(state.attribute); value.isTensor())
      tensors.push_back({state.name, value.toTensor().detach().clone()});
  return tensors;
}

void OriginalModel::detachState() const {
  for (const State &state : states)
    if (c10::IValue value = state.owner->getAttr(state.attribute);
        value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad())
      state.owner->setAttr(state.attribute, value.toTensor().detach());
}

static llvm::Error mismatch(const c10::TypePtr &type, const char *found) {
  return llvm::createStringError("forward takes an input of type " + type->annotation_str() +
                                 ", but the plan's inputs have a " + found +
                                 " there; the plan is of another model, or damaged: compile it again");
}

using Leaves = llvm::ArrayRef<at::Tensor>;
static llvm::Expected<c10::IValue> nest(const plan::Tree &tree, const c10::TypePtr &type, Leaves leaves);

static llvm::Expected<c10::IValue> nestTuple(const plan::Tree &tree, const c10::TypePtr &type,
                                             Leaves leaves) {
  auto tuple = type->cast<c10::TupleType>();
  if (!tuple || tuple->elements().size() != tree.children.size())
    return mismatch(type, "tuple of another length");
  std::vector<c10::IValue> items;
  for (auto [child, element] : llvm::zip(tree.children, tuple->elements())) {
    auto item = nest(*child, element, leaves);
    if (!item)
      return item.takeError();
    items.push_back(std::move(*item));
  }
  return c10::ivalue::Tuple::create(std::move(items));
}

static llvm::Expected<c10::IValue> nestList(const plan::Tree &tree, const c10::TypePtr &type, Leaves leaves) {
  auto list = type->cast<c10::ListType>();
  if (!list)
    return mismatch(type, "list");
  c10::impl::GenericList items(list->getElementType());
  for (auto &child : tree.children) {
    auto item = nest(*child, list->getElementType(), leaves);
    if (!item)
      return item.takeError();
    items.push_back(std::move(*item));
  }
  return items;
}

static llvm::Expected<c10::IValue> nestDict(const plan::Tree &tree, const c10::TypePtr &type, Leaves leaves) {
  auto dict = type->cast<c10::DictType>();
  bool hasNumbers = dict && dict->getKeyType()->kind() == c10::TypeKind::IntType;
  if (!dict || (!hasNumbers && dict->getKeyType()->kind() != c10::TypeKind::StringType) ||
      tree.keys.size() != tree.children.size())
    return mismatch(type, "dict of strings or integers");
  c10::impl::GenericDict entries(dict->getKeyType(), dict->getValueType());
  for (auto [key, child] : llvm::zip(tree.keys, tree.children)) {
    auto item = nest(*child, dict->getValueType(), leaves);
    if (!item)
      return item.takeError();
    int64_t number = 0;
    if (hasNumbers && (llvm::StringRef(key).getAsInteger(10, number) || std::to_string(number) != key))
      return mismatch(type, "dict with strings as keys");
    entries.insert(hasNumbers ? c10::IValue(number) : c10::IValue(key), std::move(*item));
  }
  return entries;
}

/// Nests leaves into an argument of `type`, by `tree`.
static llvm::Expected<c10::IValue> nest(const plan::Tree &tree, const c10::TypePtr &type, Leaves leaves) {
  if (auto optional = type->cast<c10::OptionalType>(); optional && tree.kind != plan::TreeKind::None)
    return nest(tree, optional->getElementType(), leaves);
  switch (tree.kind) {
  case plan::TreeKind::Leaf:
    if (tree.leaf >= leaves.size())
      return mismatch(type, "tensor without a name");
    return leaves[tree.leaf];
  case plan::TreeKind::None:
    return c10::IValue();
  case plan::TreeKind::Fixed:
    return tree.constant ? runtime::toValue(*tree.constant) : mismatch(type, "constant without a value");
  case plan::TreeKind::Tuple:
    return nestTuple(tree, type, leaves);
  case plan::TreeKind::List:
    return nestList(tree, type, leaves);
  case plan::TreeKind::Dict:
    return nestDict(tree, type, leaves);
  }
  return mismatch(type, "value of an unknown kind");
}

/// Flattens a value into its tensors, in the order of the output tree, with the names that the import gives
/// them.
static void flatten(const c10::IValue &value, const std::string &name,
                    std::vector<runtime::NamedTensor> &leaves) {
  auto flattenAll = [&](const auto &items) {
    for (size_t i = 0; i < items.size(); ++i)
      flatten(items[i], name + "." + std::to_string(i), leaves);
  };
  if (value.isTensor())
    leaves.push_back({name, value.toTensor()});
  else if (value.isTuple())
    flattenAll(value.toTupleRef().elements());
  else if (value.isList())
    flattenAll(value.toListRef());
  else if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict()) {
      const bool isText = entry.key().isString();
      flatten(entry.value(),
              name + "." + (isText ? entry.key().toStringRef() : std::to_string(entry.key().toInt())),
              leaves);
    }
}

llvm::Expected<std::vector<runtime::NamedTensor>>
OriginalModel::run(llvm::ArrayRef<at::Tensor> inputs) const {
  auto forward = module.find_method("forward");
  if (!forward)
    return llvm::createStringError("the original model has no forward method");
  try {
    // Argument i of forward is child i of the tree, a dict by argument name; argument 0 is the module.
    auto &arguments = forward->function().getSchema().arguments();
    auto &given = inputTree.children;
    if (given.size() + 1 != arguments.size())
      return llvm::createStringError("forward takes " + llvm::Twine(arguments.size() - 1) +
                                     " arguments, the plan " + llvm::Twine(given.size()) +
                                     "; the plan is of another model, or damaged: compile it "
                                     "again");
    std::vector<c10::IValue> stack;
    for (auto [tree, argument] : llvm::zip(given, llvm::drop_begin(arguments))) {
      auto value = nest(*tree, argument.type(), inputs);
      if (!value)
        return value.takeError();
      stack.push_back(std::move(*value));
    }
    std::vector<runtime::NamedTensor> leaves;
    flatten(program ? interpret(std::move(stack)) : (*forward)(std::move(stack)), "output", leaves);
    return leaves;
  } catch (const std::exception &e) {
    return llvm::createStringError("the original model raises: " + errorLine(e.what()).str());
  }
}

c10::IValue OriginalModel::interpret(std::vector<c10::IValue> stack) const {
  stack.insert(stack.begin(), module._ivalue());
  torch::jit::InterpreterState(torch::jit::Code(program, "forward")).run(stack);
  return stack.front();
}

} // namespace cleave
