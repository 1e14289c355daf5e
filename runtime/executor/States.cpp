//===- States.cpp ---------------------------------------------------------===//
#include "runtime/executor/States.h"
#include "codegen/plan/DimExpr.h"
#include "runtime/base/DTypes.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <numeric>

namespace cleave::runtime {

States::States(const plan::Plan &plan, uint32_t tpRank) : States(plan.states.size()) {
  for (size_t index = 0; index < plan.states.size(); ++index) {
    const plan::State &state = *plan.states[index];
    if (state.scope != plan::StateScope::Step)
      continue;
    sums[index].isSum = true;
    sums[index].dtype = *scalarTypeOf(state.type->dtype);
    for (const auto &dim : state.type->dims)
      sums[index].sizes.push_back(*plan::asConstant(*dim));
    if (!state.shards.empty())
      for (const auto &range : state.shards[tpRank]->ranges)
        sums[index].sizes[range->dim] = std::accumulate(range->sizes.begin(), range->sizes.end(), int64_t(0));
  }
}

at::Tensor States::sum(uint32_t state, c10::Device device) {
  if (!written[state])
    written[state] = at::zeros(sums[state].sizes, at::TensorOptions(device).dtype(sums[state].dtype));
  return written[state]->toTensor();
}

void States::accumulate(uint32_t state, const at::Tensor &value) {
  TORCH_CHECK(value.sizes() == at::IntArrayRef(sums[state].sizes), "found ", value.sizes(),
              " for a sum of sizes ", at::IntArrayRef(sums[state].sizes));
  sum(state, value.device()).add_(value);
}

/// True if `value` is the only reference to the tensor, and the tensor the only one in its memory.
static bool isSoleReference(const c10::IValue &value) {
  const at::Tensor &tensor = value.toTensor();
  return value.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1 &&
         tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes();
}

void States::write(uint32_t state, c10::IValue value) {
  const bool isTensor = value.isTensor() && value.toTensor().defined();
  if (isTensor && isSoleReference(value))
    written[state] = std::move(value);
  else
    written[state] =
        isTensor ? c10::IValue(value.toTensor().clone(at::MemoryFormat::Contiguous)) : value.deepcopy();
}

at::Tensor States::copiedIfAliased(at::Tensor value) const {
  const c10::IValue whole(value);
  bool isShared = std::any_of(current.begin(), current.end(), [&](const std::optional<c10::IValue> &state) {
    bool found = false;
    if (state)
      state->visit([&](const c10::IValue &part) { return found = found || part.isAliasOf(whole); });
    return found;
  });
  return isShared ? value.clone() : value;
}

void States::commit() {
  for (size_t state = 0; state < current.size(); ++state)
    if (written[state] && !sums[state].isSum)
      current[state] = std::move(written[state]);
  discard();
}

void States::discard() { written.assign(written.size(), std::nullopt); }

void States::reset() { current.assign(current.size(), std::nullopt); }

} // namespace cleave::runtime
