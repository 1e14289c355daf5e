//===- RequestStates.cpp --------------------------------------------------===//
#include "runtime/executor/RequestStates.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Groups.h"
#include "runtime/base/DTypes.h"
#include <ATen/Functions.h>
#include <numeric>
#include <utility>

namespace cleave::runtime {

using plan::StateScope;

RequestStates::RequestStates(StateStore &store, uint64_t sequence, int64_t batch)
    : store(store), sequence(sequence), batch(batch),
      written(plan::ranksPerDeviceGroup(store.plan) * store.plan.states.size()) {}

StateKey RequestStates::keyOf(uint32_t state, const MicrobatchSlice &part) const {
  if (typeOf(state).scope == StateScope::Sequence)
    return {sequence, part.position, state, part.microbatch};
  return {0, part.position, state, 0};
}

/// The initial value of a part's rows, which do not share memory.
at::Tensor RequestStates::initialRows(const plan::State &state, const MicrobatchSlice &part,
                                      const at::Tensor &initial) const {
  const int64_t dim = state.batch_dim;
  TORCH_CHECK(initial.dim() > dim, "state ", state.name, " begins with ", initial.dim(),
              " dimensions, expected more than ", dim);
  const int64_t rows = initial.size(dim);
  TORCH_CHECK(rows == 1 || rows == batch, "state ", state.name, " begins with ", rows,
              " rows, found a batch of ", batch, "; give a batch of ", rows);
  if (rows == part.samples)
    return initial;
  if (rows > 1)
    return initial.narrow(dim, part.firstSample, part.samples).contiguous();
  std::vector<int64_t> sizes = initial.sizes().vec();
  sizes[dim] = part.samples;
  return initial.expand(sizes).contiguous();
}

c10::IValue RequestStates::read(uint32_t state, const MicrobatchSlice &part, c10::IValue initial) const {
  if (std::optional<c10::IValue> found = store.find(keyOf(state, part)))
    return std::move(*found);
  const plan::State &type = typeOf(state);
  return type.scope == StateScope::Sequence ? initialRows(type, part, initial.toTensor())
                                            : std::move(initial);
}

/// True if `value` is the only reference to the tensor, and the tensor the only one in its memory.
static bool isSoleReference(const c10::IValue &value) {
  const at::Tensor &tensor = value.toTensor();
  return value.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1 &&
         tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

/// Bytes of the tensors in a value.
static int64_t bytesOf(const c10::IValue &value) {
  int64_t bytes = 0;
  value.visit([&](const c10::IValue &part) {
    if (part.isTensor() && part.toTensor().defined())
      bytes += part.toTensor().nbytes();
    return false;
  });
  return bytes;
}

void RequestStates::write(uint32_t state, const MicrobatchSlice &part, c10::IValue value) {
  const plan::State &type = typeOf(state);
  const bool isTensor = value.isTensor() && value.toTensor().defined();
  if (type.scope == StateScope::Sequence) {
    TORCH_CHECK(isTensor && value.toTensor().dim() > type.batch_dim &&
                    value.toTensor().size(type.batch_dim) == part.samples,
                "state ", type.name, " would not have a row for each of ", part.samples, " samples");
  }
  const bool isCopied = !isTensor || !isSoleReference(value);
  if (isCopied)
    value = isTensor ? c10::IValue(value.toTensor().clone(at::MemoryFormat::Contiguous)) : value.deepcopy();
  store.recordWrite(part.position, state, bytesOf(value), isCopied);
  writtenOf(state, part.position)[keyOf(state, part).microbatch] = std::move(value);
}

std::vector<int64_t> RequestStates::sizesOfSum(uint32_t state, uint32_t position) const {
  const plan::State &type = typeOf(state);
  std::vector<int64_t> sizes;
  for (const auto &dim : type.type->dims)
    sizes.push_back(*plan::asConstant(*dim));
  if (!type.shards.empty())
    for (const auto &range : type.shards[position % store.plan.mesh->tp]->ranges)
      sizes[range->dim] = std::accumulate(range->sizes.begin(), range->sizes.end(), int64_t(0));
  return sizes;
}

at::Tensor RequestStates::sum(uint32_t state, uint32_t position, c10::Device device) {
  c10::IValue &value = writtenOf(state, position)[0];
  if (!value.isTensor())
    value = at::zeros(sizesOfSum(state, position),
                      at::TensorOptions(device).dtype(*scalarTypeOf(typeOf(state).type->dtype)));
  return value.toTensor();
}

void RequestStates::accumulate(uint32_t state, uint32_t position, c10::IValue value, c10::Device device) {
  const std::vector<int64_t> sizes = sizesOfSum(state, position);
  TORCH_CHECK(value.toTensor().sizes() == sizes, "found ", value.toTensor().sizes(), " for a sum of sizes ",
              sizes);
  c10::IValue &written = writtenOf(state, position)[0];
  if (!written.isTensor() && isSoleReference(value) && value.toTensor().device() == device &&
      value.toTensor().scalar_type() == *scalarTypeOf(typeOf(state).type->dtype)) {
    written = std::move(value);
    return;
  }
  sum(state, position, device).add_(value.toTensor());
}

at::Tensor RequestStates::optimizerState(uint32_t state, uint32_t position, const at::Tensor &weight) {
  const StateKey key{0, position, state, 0};
  if (std::optional<c10::IValue> found = store.find(key))
    return found->toTensor();
  at::Tensor zeros = at::zeros_like(weight, at::MemoryFormat::Contiguous);
  StateValues values;
  values[key] = zeros;
  store.replace(std::move(values), /*sequence=*/0, /*batch=*/0);
  return zeros;
}

at::Tensor RequestStates::copiedIfAliased(at::Tensor value, const MicrobatchSlice &part) const {
  const c10::IValue whole(value);
  for (uint32_t state = 0; state < store.plan.states.size(); ++state) {
    const std::optional<c10::IValue> current = store.find(keyOf(state, part));
    bool isShared = false;
    if (current)
      current->visit([&](const c10::IValue &each) { return isShared = isShared || each.isAliasOf(whole); });
    if (isShared)
      return value.clone();
  }
  return value;
}

void RequestStates::commit() {
  if (written.empty())
    return;
  StateValues values;
  for (size_t place = 0; place < written.size(); ++place) {
    const uint32_t state = place % store.plan.states.size();
    if (typeOf(state).scope != StateScope::Step)
      for (auto &[microbatch, value] : written[place])
        values[keyOf(state, {uint32_t(place / store.plan.states.size()), microbatch})] = std::move(value);
  }
  store.replace(std::move(values), sequence, batch);
  discard();
}

void RequestStates::discard() {
  for (auto &each : written)
    each.clear();
}

} // namespace cleave::runtime
