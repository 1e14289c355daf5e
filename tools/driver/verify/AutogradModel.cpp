//===- AutogradModel.cpp --------------------------------------------------===//
#include "tools/driver/verify/AutogradModel.h"
#include "runtime/base/Exceptions.h"
#include "tools/driver/verify/Float64Program.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/raw_ostream.h"
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

namespace cleave {

using at::Tensor;

/// Identifies the elements of a tensor: equal for tensors with the same address, dtype, sizes and strides
/// (tied weights); different for each empty tensor.
static std::string storageKey(const Tensor &tensor) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << (tensor.has_storage() && tensor.numel() > 0 ? tensor.const_data_ptr() : tensor.unsafeGetTensorImpl())
      << ' ' << int(tensor.scalar_type());
  for (at::IntArrayRef numbers : {tensor.sizes(), tensor.is_sparse() ? at::IntArrayRef() : tensor.strides()})
    for (int64_t number : numbers)
      out << ',' << number;
  return key;
}

AutogradModel::AutogradModel(OriginalModel &original, const plan::Signature &signature, OriginalLoss loss)
    : original(original), signature(signature), loss(std::move(loss)) {
  findAttributes(original.original()._ivalue(), "");
}

AutogradModel::~AutogradModel() { restore(); }

void AutogradModel::findAttributes(const c10::intrusive_ptr<c10::ivalue::Object> &object,
                                   const std::string &path) {
  const auto type = object->type();
  for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
    const std::string name = path + type->getAttributeName(slot);
    c10::IValue value = object->getSlot(slot);
    if (value.isObject())
      findAttributes(value.toObject(), name + ".");
    else if ((value.isTensor() && value.toTensor().defined()) || value.isTensorList())
      attributes.push_back({object, slot, name, type->is_parameter(slot), value});
  }
}

llvm::Expected<std::vector<std::string>>
AutogradModel::trainedNames(llvm::ArrayRef<std::string> patterns, llvm::ArrayRef<std::string> known) const {
  std::vector<llvm::GlobPattern> globs;
  for (const std::string &pattern : patterns) {
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return glob.takeError();
    globs.push_back(std::move(*glob));
  }
  // Indices into `weights`, by storage key; weights are in the order of the module.
  llvm::StringMap<size_t> indices;
  std::vector<std::pair<std::string, bool>> weights;
  for (const Attribute &attribute : attributes) {
    if (!attribute.isParameter || !attribute.value.isTensor())
      continue;
    const Tensor &tensor = attribute.value.toTensor();
    if (!tensor.is_floating_point() && !tensor.is_complex())
      continue;
    const auto [index, isNew] = indices.try_emplace(storageKey(tensor), weights.size());
    if (isNew)
      weights.emplace_back();
    auto &[name, isTrained] = weights[index->second];
    if (isNew || llvm::is_contained(known, attribute.path))
      name = attribute.path;
    isTrained |= patterns.empty()
                     ? tensor.requires_grad()
                     : llvm::any_of(globs, [&](auto &glob) { return glob.match(attribute.path); });
  }
  std::vector<std::string> names;
  for (auto &[name, isTrained] : weights)
    if (isTrained)
      names.push_back(name);
  return names;
}

llvm::Error AutogradModel::setTrained(llvm::ArrayRef<std::string> names) {
  trained.clear();
  for (const std::string &name : names) {
    auto attribute = llvm::find_if(attributes, [&](const Attribute &one) { return one.path == name; });
    const bool isFloat =
        attribute != attributes.end() && attribute->value.isTensor() &&
        (attribute->value.toTensor().is_floating_point() || attribute->value.toTensor().is_complex());
    if (!isFloat)
      return llvm::createStringError("weight " + name +
                                     " is no floating-point tensor of the original model; "
                                     "the plan is damaged: compile it again");
    trained.push_back(storageKey(attribute->value.toTensor()));
  }
  return llvm::Error::success();
}

void AutogradModel::restore() {
  for (const Attribute &attribute : attributes)
    attribute.owner->setSlot(attribute.slot, attribute.value);
  original.setProgram(nullptr);
  original.resetState();
  trainedWeights.clear();
}

void AutogradModel::reset(Precision precision) {
  restore();
  this->precision = precision;
  const bool isWide = precision == Precision::Float64;
  if (isWide)
    original.setProgram(forwardInFloat64(original.original()));
  llvm::StringMap<Tensor> copies;
  auto copyOf = [&](const Tensor &tensor) {
    const std::string key = tensor.defined() ? storageKey(tensor) : "";
    const bool isTrained = llvm::is_contained(trained, key);
    const bool isWidened = isWide && tensor.defined() && tensor.is_floating_point();
    if (!isTrained && !isWidened)
      return tensor.defined() ? tensor.detach() : tensor;
    Tensor &copy = copies[key];
    if (!copy.defined())
      copy = tensor.detach()
                 .to(isWidened ? at::kDouble : tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
                 .set_requires_grad(isTrained);
    return copy;
  };
  for (const Attribute &attribute : attributes) {
    if (attribute.value.isTensor()) {
      attribute.owner->setSlot(attribute.slot, copyOf(attribute.value.toTensor()));
      continue;
    }
    c10::List<Tensor> list;
    for (const Tensor &item : attribute.value.toTensorVector())
      list.push_back(copyOf(item));
    attribute.owner->setSlot(attribute.slot, std::move(list));
  }
  for (const std::string &key : trained)
    trainedWeights.push_back(copies[key]);
}

llvm::Expected<AutogradModel::Result> AutogradModel::run(const Inputs &inputs) const {
  try {
    return compute(inputs);
  } catch (const std::exception &exception) {
    return llvm::createStringError("the original model raises: " + runtime::messageOf(exception));
  }
}

llvm::Expected<AutogradModel::Result> AutogradModel::compute(const Inputs &inputs) const {
  Inputs given, copies;
  for (const Tensor &input : inputs)
    given.push_back(precision == Precision::Float64 && input.is_floating_point() ? input.to(at::kDouble)
                                                                                 : input);
  // The model may write to its inputs in place.
  for (const Tensor &input : given)
    copies.push_back(input.clone());
  auto outputs = original.run(copies);
  if (!outputs)
    return outputs.takeError();
  auto found = loss.compute(*outputs, signature, given);
  if (!found)
    return found.takeError();
  if (found->numel() != 1 || !found->is_floating_point())
    return llvm::createStringError("the loss: found " + llvm::Twine(found->numel()) +
                                   " numbers, expected one floating-point number");
  if (const double number = found->item<double>(); !std::isfinite(number))
    return llvm::createStringError("the loss of the original is " +
                                   llvm::Twine(std::isnan(number) ? "nan" : "infinite") +
                                   ", which has no gradients to compare");
  Result result;
  if (!found->requires_grad())
    result.gradients.resize(trainedWeights.size());
  else if (!trainedWeights.empty())
    result.gradients = torch::autograd::grad({*found}, trainedWeights, {}, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
  original.detachState();
  result.loss = found->detach().clone();
  // A later call may write to them.
  for (const auto &[name, tensor] : *outputs)
    result.outputs.push_back({name, tensor.detach().clone()});
  return result;
}

llvm::Expected<bool> AutogradModel::isRandom(const Inputs &inputs) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  reset(Precision::Traced);
  auto first = run(inputs);
  if (!first)
    return first.takeError();
  if (at::equal(before, generator.get_state()))
    return false;
  reset(Precision::Traced);
  auto second = run(inputs);
  if (!second)
    return second.takeError();
  return !at::equal(first->loss, second->loss);
}

} // namespace cleave
