//===- OriginalModel.cpp - The TorchScript module, run as it is -----------===//
#include "tools/driver/OriginalModel.h"
#include "runtime/Values.h"
#include <torch/csrc/jit/runtime/graph_executor.h>

namespace cleave {

OriginalModel::OriginalModel(const TorchScriptFile &file, const plan::Signature &signature)
    : module(file.module), signature(signature) {
  // As it stands: no fusion, no specialisation to the shapes of the first call.
  torch::jit::getExecutorMode() = false;
  torch::jit::setGraphExecutorOptimize(false);
}

c10::IValue OriginalModel::nest(const plan::Tree &tree, const c10::TypePtr &type,
                                llvm::ArrayRef<at::Tensor> leaves) const {
  auto inner = type->cast<c10::OptionalType>() ? type->expectRef<c10::OptionalType>().getElementType() : type;
  switch (tree.kind) {
  case plan::TreeKind::Leaf:
    return leaves[tree.leaf];
  case plan::TreeKind::None:
    return {};
  case plan::TreeKind::Fixed:
    return llvm::cantFail(runtime::toValue(*tree.constant));
  case plan::TreeKind::Tuple: {
    std::vector<c10::IValue> items;
    for (size_t i = 0; i < tree.children.size(); ++i)
      items.push_back(nest(*tree.children[i], inner->expectRef<c10::TupleType>().elements()[i], leaves));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  case plan::TreeKind::List: {
    c10::TypePtr element = inner->expectRef<c10::ListType>().getElementType();
    c10::impl::GenericList items(element);
    for (auto &child : tree.children)
      items.push_back(nest(*child, element, leaves));
    return items;
  }
  case plan::TreeKind::Dict: {
    auto &dict = inner->expectRef<c10::DictType>();
    c10::impl::GenericDict entries(dict.getKeyType(), dict.getValueType());
    for (size_t i = 0; i < tree.children.size(); ++i)
      entries.insert(tree.keys[i], nest(*tree.children[i], dict.getValueType(), leaves));
    return entries;
  }
  }
  return {};
}

/// The tensors of a value, in the order of the output tree.
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

/// TorchScript's messages are a backtrace of the model's source, then what happened, then perhaps a backtrace of libtorch.
static llvm::StringRef whatHappened(llvm::StringRef message) {
  message = message.split("\nException raised from").first.rtrim();
  size_t last = message.rfind('\n');
  return message.substr(last == llvm::StringRef::npos ? 0 : last + 1).trim();
}

llvm::Expected<std::vector<at::Tensor>> OriginalModel::run(llvm::ArrayRef<at::Tensor> inputs) {
  // Argument i of forward is child i of the tree, a dict by argument name.
  auto &arguments = module.get_method("forward").function().getSchema().arguments();
  std::vector<c10::IValue> stack;
  for (size_t i = 0; i < signature.input_tree->children.size(); ++i)
    stack.push_back(nest(*signature.input_tree->children[i], arguments.at(i + 1).type(), inputs));
  try {
    std::vector<at::Tensor> leaves;
    flatten(module.forward(std::move(stack)), leaves);
    return leaves;
  } catch (const std::exception &e) {
    return llvm::createStringError("the original model raises: " + whatHappened(e.what()).str());
  }
}

} // namespace cleave
