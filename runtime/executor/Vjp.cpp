//===- Vjp.cpp - Gradients by PyTorch's autograd --------------------------===//
#include "runtime/executor/Vjp.h"
#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <torch/csrc/autograd/autograd.h>

namespace cleave::runtime {

using at::Tensor;
using c10::IValue;

/// The value with each tensor in it changed.
static IValue mapTensors(const IValue &value, Tensor (*change)(const Tensor &)) {
  if (value.isTensor())
    return value.toTensor().defined() ? IValue(change(value.toTensor())) : value;
  if (value.isTuple()) {
    std::vector<IValue> items;
    for (const IValue &item : value.toTupleRef().elements())
      items.push_back(mapTensors(item, change));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isList()) {
    const c10::List<IValue> list = value.toList();
    c10::impl::GenericList items(list.elementType());
    items.reserve(list.size());
    for (const IValue &item : list)
      items.push_back(mapTensors(item, change));
    return items;
  }
  if (value.isGenericDict()) {
    const c10::impl::GenericDict dict = value.toGenericDict();
    c10::impl::GenericDict entries(dict.keyType(), dict.valueType());
    for (const auto &entry : dict)
      entries.insert(entry.key(), mapTensors(entry.value(), change));
    return entries;
  }
  return value;
}

/// The same memory as a tensor that autograd may save, which it refuses of one made in inference mode.
static Tensor normalTensor(const Tensor &given) {
  // Conjugation and negation may wait in a bit of the tensor, not in its memory.
  const Tensor tensor = given.resolve_conj().resolve_neg();
  Tensor normal = at::empty({0}, tensor.options().requires_grad(false));
  normal.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    normal.unsafeGetTensorImpl()->set_wrapped_number(true);
  return normal;
}

static Tensor detached(const Tensor &tensor) { return tensor.detach(); }

AutogradScope::AutogradScope(llvm::ArrayRef<IValue> operands, size_t outputCount, size_t gradientCount) {
  for (const IValue &gradient : operands.take_front(outputCount))
    gradOutputs.push_back(normalTensor(gradient.toTensor()));
  for (const IValue &input : operands.drop_front(outputCount))
    inputValues.push_back(mapTensors(input, normalTensor));
  for (const IValue &input : llvm::ArrayRef(inputValues).take_front(gradientCount))
    leaves.push_back(input.toTensor().requires_grad_());
}

void AutogradScope::finish(torch::jit::Stack &stack) const {
  std::vector<Tensor> outputs, given;
  for (auto [output, gradient] : llvm::zip(stack, gradOutputs)) {
    if (!output.isTensor() || !output.toTensor().requires_grad())
      continue;
    outputs.push_back(output.toTensor());
    given.push_back(gradient);
  }
  std::vector<Tensor> gradients(leaves.size());
  if (!outputs.empty() && !leaves.empty())
    gradients = torch::autograd::grad(outputs, leaves, given, /*retain_graph=*/false, /*create_graph=*/false,
                                      /*allow_unused=*/true);
  torch::jit::Stack results;
  for (auto [leaf, gradient] : llvm::zip(leaves, gradients)) {
    Tensor result = at::empty_like(leaf.detach());
    if (!gradient.defined())
      result.zero_();
    // Not that of a sparse embedding, nor one that waits to be conjugated.
    else if (gradient.layout() == at::kStrided && gradient.strides() == result.strides() &&
             !gradient.is_conj())
      result = gradient.detach();
    else
      result.copy_(gradient.layout() == at::kStrided ? gradient.detach() : gradient.detach().to_dense());
    results.push_back(std::move(result));
  }
  for (const IValue &output : stack)
    results.push_back(mapTensors(output, detached));
  stack.swap(results);
}

} // namespace cleave::runtime
