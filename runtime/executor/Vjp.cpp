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
static Tensor normalTensor(const Tensor &tensor) {
  Tensor normal = at::empty({0}, tensor.options().requires_grad(false));
  normal.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    normal.unsafeGetTensorImpl()->set_wrapped_number(true);
  return normal;
}

static Tensor detached(const Tensor &tensor) { return tensor.detach(); }

Vjp::Vjp(llvm::ArrayRef<IValue> operands, size_t valueCount, size_t gradientCount) {
  for (const IValue &gradient : operands.take_front(valueCount))
    gradients.push_back(normalTensor(gradient.toTensor()));
  for (const IValue &input : operands.drop_front(valueCount))
    given.push_back(mapTensors(input, normalTensor));
  for (const IValue &input : llvm::ArrayRef(given).take_front(gradientCount))
    wanted.push_back(input.toTensor().requires_grad_());
}

void Vjp::finish(torch::jit::Stack &stack) const {
  std::vector<Tensor> values, ofValues;
  for (auto [value, gradient] : llvm::zip(stack, gradients)) {
    if (!value.isTensor() || !value.toTensor().requires_grad())
      continue;
    values.push_back(value.toTensor());
    ofValues.push_back(gradient);
  }
  std::vector<Tensor> found(wanted.size());
  if (!values.empty() && !wanted.empty())
    found = torch::autograd::grad(values, wanted, ofValues, /*retain_graph=*/false, /*create_graph=*/false,
                                  /*allow_unused=*/true);
  torch::jit::Stack results;
  for (auto [input, gradient] : llvm::zip(wanted, found)) {
    Tensor result = at::empty_like(input.detach());
    if (!gradient.defined())
      result.zero_();
    else if (gradient.strides() == result.strides())
      result = gradient.detach();
    else
      result.copy_(gradient.detach());
    results.push_back(std::move(result));
  }
  for (const IValue &value : stack)
    results.push_back(mapTensors(value, detached));
  stack.swap(results);
}

} // namespace cleave::runtime
