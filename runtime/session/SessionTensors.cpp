//===- SessionTensors.cpp - What training has changed in a session --------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/TensorParts.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/session/SessionImpl.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/accumulate.h>
#include <numeric>
#include <set>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

static at::Tensor copyInMemory(const at::Tensor &tensor) {
  return tensor.is_cpu() ? tensor.clone(at::MemoryFormat::Contiguous) : tensor.cpu().contiguous();
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

/// `weight 'fc.bias': found Float[3], expected Float[4]`.
static Error checkLike(const llvm::Twine &what, const at::Tensor &found, at::ScalarType dtype,
                       llvm::ArrayRef<int64_t> sizes) {
  const at::IntArrayRef wanted(sizes.data(), sizes.size());
  if (found.scalar_type() == dtype && found.sizes() == wanted)
    return Error::success();
  return llvm::createStringError(what + ": found " +
                                 c10::str(found.scalar_type(), found.sizes(), ", expected ", dtype, wanted));
}

/// Sizes of a part of a tensor of `sizes`.
static std::vector<int64_t> partSizes(std::vector<int64_t> sizes, PartRanges ranges) {
  for (const auto &range : ranges)
    sizes[range->dim] = std::accumulate(range->sizes.begin(), range->sizes.end(), int64_t(0));
  return sizes;
}

/// By weight that training changes: its parts on the ranks whose programs use it; a whole one alone, if there
/// is one.
static std::vector<std::vector<const plan::WeightShard *>> trainedShards(const plan::Plan &plan) {
  std::set<std::pair<uint32_t, uint32_t>> used;
  for (uint32_t rank = 0; rank < rankCount(plan); ++rank)
    for (const plan::Program *program : programsOf(plan, rank))
      for (const auto &use : program->weights)
        used.emplace(use->weight, rank);
  std::vector<std::vector<const plan::WeightShard *>> shards(plan.weights.size());
  for (auto [index, weight] : llvm::enumerate(plan.weights))
    for (const auto &shard : weight->shards)
      if (weight->trainable && used.count({uint32_t(index), shard->rank}))
        shards[index].push_back(shard.get());
  return shards;
}

const Rank *Session::Impl::rankHere(uint32_t number) const {
  auto found = llvm::find_if(ranks, [&](const auto &rank) { return rank->number() == number; });
  return found == ranks.end() ? nullptr : found->get();
}

Expected<at::Tensor> Session::Impl::moveToFirst(uint32_t rank, const at::Tensor &own, uint64_t most) {
  if (!membership || (rank == 0 && membership->rank() == 0))
    return own.defined() ? copyInMemory(own) : own;
  std::vector<c10::IValue> values;
  std::vector<char> buffer;
  Error error = membership->waitFor("for the trained tensors of rank " + std::to_string(rank), [&] {
    if (membership->rank() == rank) {
      values.push_back(own.defined() ? c10::IValue(copyInMemory(own)) : c10::IValue());
      Sender sender(membership->transport(), /*to=*/0, Tag::Trained);
      sender.send(values);
      sender.flush();
    } else if (membership->rank() == 0) {
      receiveValues(membership->transport(), rank, Tag::Trained, {1, most}, /*link=*/nullptr, buffer, values);
    }
  });
  if (error)
    return error;
  return values.size() == 1 && values.front().isTensor() ? values.front().toTensor() : at::Tensor();
}

/// Zeros where a plan leaves a gap between the parts.
Expected<at::Tensor> Session::Impl::wholeWeight(uint32_t index,
                                                llvm::ArrayRef<const plan::WeightShard *> shards) {
  const plan::Weight &weight = *plan->weights[index];
  const at::ScalarType dtype = *scalarTypeOf(weight.dtype);
  auto isWhole = [](const plan::WeightShard *shard) { return shard->ranges.empty(); };
  if (auto one = llvm::find_if(shards, isWhole); one != shards.end())
    shards = *one;
  at::Tensor whole;
  for (const plan::WeightShard *shard : shards) {
    const Rank *here = rankHere(shard->rank);
    auto part = moveToFirst(shard->rank, here ? here->weightStore().at(index) : at::Tensor(),
                            c10::multiply_integers(shard->shape) * c10::elementSize(dtype));
    if (!part)
      return part.takeError();
    if (process() != 0)
      continue;
    if (!part->defined())
      return llvm::createStringError("a message of rank %u: found no value of weight '%s'", shard->rank,
                                     weight.name.c_str());
    if (Error error = checkLike("weight '" + weight.name + "'", *part, dtype, shard->shape))
      return error;
    if (isWhole(shard))
      return part;
    if (!whole.defined())
      whole = at::zeros(at::IntArrayRef(weight.shape.data(), weight.shape.size()), dtype);
    writePart(whole, shard->ranges, *part);
  }
  return whole;
}

/// From the parts of tensor-parallel ranks; those of data-parallel ranks are alike. Undefined if some rank
/// has none, or one that is no tensor.
Expected<at::Tensor> Session::Impl::wholeState(uint32_t index) {
  const plan::State &state = *plan->states[index];
  const std::vector<uint32_t> &holders = plan->stages[state.stage]->ranks;
  const auto sizes = fixedSizes(state);
  // The same ranks are asked in all processes, whatever they have.
  const uint32_t parts = rangesOf(state, /*tpRank=*/0).empty() ? 1 : plan->mesh->tp;
  at::Tensor whole;
  bool isMissing = false;
  for (uint32_t tpRank = 0; tpRank < parts; ++tpRank) {
    at::Tensor own;
    if (rankHere(holders[tpRank])) {
      const std::map<uint32_t, c10::IValue> values = states.ofSession(/*position=*/tpRank);
      if (auto value = values.find(index); value != values.end() && value->second.isTensor())
        own = value->second.toTensor();
    }
    auto part = moveToFirst(holders[tpRank], own, machineMemory());
    if (!part)
      return part.takeError();
    isMissing |= !part->defined();
    if (isMissing || process() != 0)
      continue;
    const PartRanges ranges = rangesOf(state, tpRank);
    if (sizes)
      if (Error error = checkLike("state '" + state.name + "'", *part, *scalarTypeOf(state.type->dtype),
                                  partSizes(*sizes, ranges)))
        return error;
    TORCH_CHECK(sizes || parts == 1, "state '", state.name, "' is sharded, and its size is not known");
    if (!whole.defined())
      whole = parts == 1 ? *part : at::zeros(*sizes, part->options());
    if (parts > 1)
      writePart(whole, ranges, *part);
  }
  return isMissing ? at::Tensor() : whole;
}

Expected<TrainedTensors> Session::Impl::trainedTensors() {
  // As the workers, which made the weights.
  c10::InferenceMode inference;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  TrainedTensors tensors;
  for (auto [index, shards] : llvm::enumerate(trainedShards(*plan))) {
    auto whole = wholeWeight(index, shards);
    if (!whole)
      return whole.takeError();
    if (whole->defined())
      tensors.weights.push_back({plan->weights[index]->name, std::move(*whole)});
  }
  const std::map<uint32_t, uint32_t> copies = copiedStates(*plan);
  for (uint32_t state = 0; state < plan->states.size(); ++state) {
    if (copies.count(state) || plan->states[state]->scope != plan::StateScope::Session)
      continue;
    auto whole = wholeState(state);
    if (!whole)
      return whole.takeError();
    if (whole->defined())
      tensors.states.push_back({plan->states[state]->name, std::move(*whole)});
  }
  return tensors;
}

/// Adds the parts of a state that the ranks of its stage hold.
Error Session::Impl::restoreState(uint32_t index, const at::Tensor &whole, StateValues &values) {
  const plan::State &state = *plan->states[index];
  if (auto sizes = fixedSizes(state))
    if (Error error =
            checkLike("state '" + state.name + "'", whole, *scalarTypeOf(state.type->dtype), *sizes))
      return error;
  for (auto [position, number] : llvm::enumerate(plan->stages[state.stage]->ranks))
    if (const Rank *rank = rankHere(number))
      values[{0, uint32_t(position), index, 0}] =
          partOf(whole, rangesOf(state, plan::tpRankOf(*plan, number)))
              .to(rank->device().device(), whole.scalar_type(),
                  /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous);
  return Error::success();
}

Error Session::Impl::restore(const TrainedTensors &tensors) {
  c10::InferenceMode inference;
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  llvm::StringMap<const at::Tensor *> byName;
  for (const NamedTensor &weight : tensors.weights)
    byName[weight.name] = &weight.tensor;
  /// Weights of the ranks of this process, and what becomes their value.
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  size_t trained = 0;
  for (auto [index, shards] : llvm::enumerate(trainedShards(*plan))) {
    if (shards.empty())
      continue;
    const plan::Weight &weight = *plan->weights[index];
    auto found = byName.find(weight.name);
    if (found == byName.end())
      return llvm::createStringError("weight '" + weight.name + "' is missing");
    if (Error error = checkLike("weight '" + weight.name + "'", *found->second, *scalarTypeOf(weight.dtype),
                                weight.shape))
      return error;
    ++trained;
    for (const plan::WeightShard *shard : shards)
      if (const Rank *rank = rankHere(shard->rank))
        copies.push_back({rank->weightStore().at(index), partOf(*found->second, shard->ranges)});
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
