//===- OriginalModel.cpp - Runs the TorchScript module --------------------===//
#include "tools/driver/OriginalModel.h"
#include "frontend/archive/TorchScriptError.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <torch/csrc/jit/runtime/graph_executor.h>

namespace cleave {

OriginalModel::OriginalModel(const TorchScriptFile &file, const plan::Signature &signature)
    : module(file.module), signature(signature) {
  // Runs the model as it is: no fusion, no specialization to the first call's shapes.
  torch::jit::getExecutorMode() = false;
  torch::jit::setGraphExecutorOptimize(false);
}

llvm::Error OriginalModel::findStates(const plan::Plan &plan) {
  for (const auto &state : plan.states) {
    auto owner = module._ivalue();
    llvm::SmallVector<llvm::StringRef> path;
    llvm::StringRef(state->name).split(path, '.');
    for (llvm::StringRef part : path) {
      bool isLast = part.end() == llvm::StringRef(state->name).end();
      if (!owner->type()->hasAttribute(part.str()))
        return llvm::createStringError(
            "state " + state->name +
            " is no attribute of the original model; the plan is damaged: compile it again");
      c10::IValue value = owner->getAttr(part.str());
      if (isLast)
        states.push_back({owner, part.str(), value, value.deepcopy()});
      else if (value.isObject())
        owner = value.toObject();
    }
  }
  return llvm::Error::success();
}

void OriginalModel::resetState() const {
  for (const State &state : states) {
    bool isTensor = state.value.isTensor() && state.value.toTensor().defined();
    if (isTensor)
      state.value.toTensor().copy_(state.copy.toTensor());
    state.owner->setAttr(state.name, isTensor ? state.value : state.copy.deepcopy());
  }
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

/// Flattens a value into its tensors, in the order of the output tree.
static void flatten(const c10::IValue &value, std::vector<at::Tensor> &leaves) {
  if (value.isTensor())
    leaves.push_back(value.toTensor());
  else if (value.isTuple())
    for (const c10::IValue &item : value.toTupleRef().elements())
      flatten(item, leaves);
  else if (value.isList())
    for (const c10::IValue &item : value.toListRef())
      flatten(item, leaves);
  else if (value.isGenericDict())
    for (const auto &entry : value.toGenericDict())
      flatten(entry.value(), leaves);
}

llvm::Expected<std::vector<at::Tensor>> OriginalModel::run(llvm::ArrayRef<at::Tensor> inputs) const {
  auto forward = module.find_method("forward");
  if (!forward)
    return llvm::createStringError("the original model has no forward method");
  try {
    // Argument i of forward is child i of the tree, a dict by argument name; argument 0 is the module.
    auto &arguments = forward->function().getSchema().arguments();
    auto &given = signature.input_tree->children;
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
    std::vector<at::Tensor> leaves;
    flatten((*forward)(std::move(stack)), leaves);
    return leaves;
  } catch (const std::exception &e) {
    return llvm::createStringError("the original model raises: " + errorLine(e.what()).str());
  }
}

} // namespace cleave
