//===- States.cpp ---------------------------------------------------------===//
#include "runtime/executor/States.h"
#include <ATen/Functions.h>
#include <algorithm>

namespace cleave::runtime {

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
    if (written[state])
      current[state] = std::move(written[state]);
  discard();
}

void States::discard() { written.assign(written.size(), std::nullopt); }

void States::reset() { current.assign(current.size(), std::nullopt); }

} // namespace cleave::runtime
