//===- SessionTensors.cpp - What training has changed in a session --------===//
#include "codegen/plan/DimExpr.h"
#include "runtime/base/DTypes.h"
#include "runtime/session/SessionImpl.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

static at::Tensor copyInMemory(const at::Tensor &tensor) {
  return tensor.is_cpu() ? tensor.clone(at::MemoryFormat::Contiguous) : tensor.cpu().contiguous();
}

static Error checkOneRank(size_t ranks) {
  return ranks == 1 ? Error::success()
                    : llvm::createStringError("found a plan for " + llvm::Twine(ranks) +
                                              " ranks, expected one: weights of several are not read yet");
}

Expected<TrainedTensors> Session::Impl::trainedTensors() {
  // As the workers, which made the weights.
  c10::InferenceMode inference;
  if (Error error = checkOneRank(plan::ranksPerDeviceGroup(*plan) * plan->mesh->pp))
    return error;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  const WeightStore &weights = ranks.front()->weightStore();
  TrainedTensors tensors;
  for (uint32_t weight = 0; weight < plan->weights.size(); ++weight)
    if (plan->weights[weight]->trainable && weights.contains(weight))
      tensors.weights.push_back({plan->weights[weight]->name, copyInMemory(weights.at(weight))});
  for (const auto &[state, value] : states.ofSession(/*position=*/0))
    if (value.isTensor() && value.toTensor().defined())
      tensors.states.push_back({plan->states[state]->name, copyInMemory(value.toTensor())});
  return tensors;
}

/// `weight 'fc.bias': found Float[3], expected Float[4]`.
static Error checkLike(const llvm::Twine &what, const at::Tensor &found, at::ScalarType dtype,
                       llvm::ArrayRef<int64_t> sizes) {
  const at::IntArrayRef wanted(sizes.data(), sizes.size());
  if (found.scalar_type() == dtype && found.sizes() == wanted)
    return Error::success();
  return llvm::createStringError(what + ": found " +
                                 c10::str(found.scalar_type(), found.sizes(), ", expected ", dtype, wanted));
}

/// The state's sizes; nothing if requests may change them.
static std::optional<std::vector<int64_t>> fixedSizes(const plan::State &state) {
  if (!state.type->ranked || state.type->dtype == plan::DType::Unknown)
    return std::nullopt;
  std::vector<int64_t> sizes;
  for (const auto &dim : state.type->dims) {
    const std::optional<int64_t> size = plan::asConstant(*dim);
    if (!size)
      return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

Error Session::Impl::restore(const TrainedTensors &tensors) {
  c10::InferenceMode inference;
  if (Error error = checkOneRank(plan::ranksPerDeviceGroup(*plan) * plan->mesh->pp))
    return error;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  const WeightStore &weights = ranks.front()->weightStore();
  llvm::StringMap<const at::Tensor *> byName;
  for (const NamedTensor &weight : tensors.weights)
    byName[weight.name] = &weight.tensor;
  std::vector<std::pair<at::Tensor, const at::Tensor *>> copies;
  for (uint32_t weight = 0; weight < plan->weights.size(); ++weight) {
    if (!plan->weights[weight]->trainable || !weights.contains(weight))
      continue;
    const std::string &name = plan->weights[weight]->name;
    auto found = byName.find(name);
    if (found == byName.end())
      return llvm::createStringError("weight '" + name + "' is missing");
    const at::Tensor &own = weights.at(weight);
    if (Error error =
            checkLike("weight '" + name + "'", *found->second, own.scalar_type(), own.sizes().vec()))
      return error;
    copies.push_back({own, found->second});
  }
  if (copies.size() != byName.size())
    return llvm::createStringError("found " + llvm::Twine(byName.size()) + " weights, the plan trains " +
                                   llvm::Twine(copies.size()));
  llvm::StringMap<uint32_t> indices;
  for (uint32_t state = 0; state < plan->states.size(); ++state)
    if (plan->states[state]->scope == plan::StateScope::Session)
      indices[plan->states[state]->name] = state;
  StateValues values;
  for (const NamedTensor &state : tensors.states) {
    auto index = indices.find(state.name);
    if (index == indices.end())
      return llvm::createStringError("state '" + state.name + "' is not in the plan");
    const plan::State &own = *plan->states[index->second];
    if (auto sizes = fixedSizes(own))
      if (Error error =
              checkLike("state '" + state.name + "'", state.tensor, *scalarTypeOf(own.type->dtype), *sizes))
        return error;
    values[{0, 0, index->second, 0}] =
        state.tensor.to(workers.front()->device(), state.tensor.scalar_type(), /*non_blocking=*/false,
                        /*copy=*/true, at::MemoryFormat::Contiguous);
  }
  for (auto &[own, given] : copies)
    own.copy_(*given);
  // GPU work of this thread is not ordered before that of the device's thread.
  synchronize(workers.front()->device());
  states.reset();
  states.replace(std::move(values), /*sequence=*/0, /*batch=*/0);
  return Error::success();
}

} // namespace cleave::runtime
