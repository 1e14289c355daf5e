//===- SessionTensors.cpp - What training has changed in a session --------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/TensorParts.h"
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

/// What each rank of a process has can be put together if the process has all of them.
static Error checkAllRanks(size_t here, const plan::Plan &plan) {
  const size_t all = size_t(plan::ranksPerDeviceGroup(plan)) * plan.mesh->pp;
  return here == all
             ? Error::success()
             : llvm::createStringError("found " + llvm::Twine(here) + " of " + llvm::Twine(all) +
                                       " ranks in this process, expected all of them: trained weights "
                                       "of several processes are not put together yet");
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

static PartRanges rangesOf(const plan::State &state, uint32_t tpRank) {
  auto own = llvm::find_if(state.shards, [&](const auto &shard) { return shard->tp_rank == tpRank; });
  return own == state.shards.end() ? PartRanges() : PartRanges((*own)->ranges);
}

/// A weight's value, from the parts of all ranks; zeros where a plan leaves a gap between them. Undefined if
/// no rank has it.
static at::Tensor wholeOf(const plan::Plan &plan, uint32_t index,
                          llvm::ArrayRef<std::unique_ptr<Rank>> ranks) {
  const plan::Weight &weight = *plan.weights[index];
  at::Tensor whole;
  for (const auto &shard : weight.shards) {
    const WeightStore &own = ranks[shard->rank]->weightStore();
    if (!own.contains(index))
      continue;
    if (shard->ranges.empty())
      return copyInMemory(own.at(index));
    if (!whole.defined())
      whole = at::zeros(at::IntArrayRef(weight.shape.data(), weight.shape.size()),
                        own.at(index).options().device(at::kCPU));
    writePart(whole, shard->ranges, own.at(index));
  }
  return whole;
}

/// A state's value, from the parts of tensor-parallel ranks; those of data-parallel ranks are alike.
/// Undefined if some rank has none, or one that is no tensor.
/// \param values  by tensor-parallel rank, then by state.
static at::Tensor wholeOf(const plan::State &state, uint32_t index,
                          llvm::ArrayRef<std::map<uint32_t, c10::IValue>> values) {
  at::Tensor whole;
  for (auto [tpRank, own] : llvm::enumerate(values)) {
    auto value = own.find(index);
    if (value == own.end() || !value->second.isTensor() || !value->second.toTensor().defined())
      return {};
    const at::Tensor part = value->second.toTensor();
    const PartRanges ranges = rangesOf(state, tpRank);
    if (ranges.empty())
      return copyInMemory(part);
    const auto sizes = fixedSizes(state);
    TORCH_CHECK(sizes, "state '", state.name, "' is sharded, and its size is not known");
    if (!whole.defined())
      whole = at::zeros(*sizes, part.options().device(at::kCPU));
    writePart(whole, ranges, part);
  }
  return whole;
}

Expected<TrainedTensors> Session::Impl::trainedTensors() {
  // As the workers, which made the weights.
  c10::InferenceMode inference;
  if (Error error = checkAllRanks(ranks.size(), *plan))
    return error;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  TrainedTensors tensors;
  for (uint32_t weight = 0; weight < plan->weights.size(); ++weight)
    if (plan->weights[weight]->trainable)
      if (at::Tensor whole = wholeOf(*plan, weight, ranks); whole.defined())
        tensors.weights.push_back({plan->weights[weight]->name, std::move(whole)});
  std::vector<std::map<uint32_t, c10::IValue>> values;
  for (uint32_t tpRank = 0; tpRank < plan->mesh->tp; ++tpRank)
    values.push_back(states.ofSession(/*position=*/tpRank));
  const std::map<uint32_t, uint32_t> copies = copiedStates(*plan);
  for (uint32_t state = 0; state < plan->states.size(); ++state)
    if (copies.count(state))
      continue;
    else if (at::Tensor whole = wholeOf(*plan->states[state], state, values); whole.defined())
      tensors.states.push_back({plan->states[state]->name, std::move(whole)});
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

/// Adds the parts of a state that the ranks of its stage hold.
Error Session::Impl::restoreState(uint32_t index, const at::Tensor &whole, StateValues &values) {
  const plan::State &state = *plan->states[index];
  if (auto sizes = fixedSizes(state))
    if (Error error =
            checkLike("state '" + state.name + "'", whole, *scalarTypeOf(state.type->dtype), *sizes))
      return error;
  const std::vector<uint32_t> &holders = plan->stages[state.stage]->ranks;
  for (uint32_t position = 0; position < holders.size(); ++position)
    values[{0, position, index, 0}] =
        partOf(whole, rangesOf(state, plan::tpRankOf(*plan, holders[position])))
            .to(ranks[holders[position]]->device().device(), whole.scalar_type(),
                /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  return Error::success();
}

Error Session::Impl::restore(const TrainedTensors &tensors) {
  c10::InferenceMode inference;
  if (Error error = checkAllRanks(ranks.size(), *plan))
    return error;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  llvm::StringMap<const at::Tensor *> byName;
  for (const NamedTensor &weight : tensors.weights)
    byName[weight.name] = &weight.tensor;
  /// Ranks' weights, and what becomes their value.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  size_t trained = 0;
  for (uint32_t index = 0; index < plan->weights.size(); ++index) {
    const plan::Weight &weight = *plan->weights[index];
    auto isHeld = [&](const auto &shard) { return ranks[shard->rank]->weightStore().contains(index); };
    if (!weight.trainable || llvm::none_of(weight.shards, isHeld))
      continue;
    auto found = byName.find(weight.name);
    if (found == byName.end())
      return llvm::createStringError("weight '" + weight.name + "' is missing");
    if (Error error = checkLike("weight '" + weight.name + "'", *found->second, *scalarTypeOf(weight.dtype),
                                weight.shape))
      return error;
    ++trained;
    for (const auto &shard : weight.shards)
      if (const WeightStore &own = ranks[shard->rank]->weightStore(); own.contains(index))
        copies.push_back({own.at(index), partOf(*found->second, shard->ranges)});
  }
  if (trained != byName.size())
    return llvm::createStringError("found " + llvm::Twine(byName.size()) + " weights, the plan trains " +
                                   llvm::Twine(trained));
  llvm::StringMap<uint32_t> indices;
  for (uint32_t state = 0; state < plan->states.size(); ++state)
    if (plan->states[state]->scope == plan::StateScope::Session)
      indices[plan->states[state]->name] = state;
  StateValues values;
  const std::map<uint32_t, uint32_t> copiedFrom = copiedStates(*plan);
  for (const NamedTensor &state : tensors.states) {
    auto index = indices.find(state.name);
    if (index == indices.end())
      return llvm::createStringError("state '" + state.name + "' is not in the plan");
    if (Error error = restoreState(index->second, state.tensor, values))
      return error;
    for (auto [copy, original] : copiedFrom)
      if (original == index->second)
        if (Error error = restoreState(copy, state.tensor, values))
          return error;
  }
  for (auto &[own, given] : copies)
    own.copy_(given);
  // GPU work of this thread is not ordered before that of the devices' threads.
  for (const auto &worker : workers)
    synchronize(worker->device());
  states.reset();
  states.replace(std::move(values), /*sequence=*/0, /*batch=*/0);
  return Error::success();
}

} // namespace cleave::runtime
