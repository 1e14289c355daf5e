//===- Streams.cpp - Streams and events of GPUs ---------------------------===//
#include "runtime/device/Streams.h"
#include "llvm/ADT/STLExtras.h"
#include <c10/core/impl/VirtualGuardImpl.h>

namespace cleave::runtime {

using c10::IValue;
using c10::impl::VirtualGuardImpl;

bool isQueued(c10::Device place) { return !place.is_cpu() && !place.is_meta(); }

c10::Stream newStream(c10::Device place) {
  return VirtualGuardImpl(place.type()).getStreamFromGlobalPool(place);
}

/// Current stream of this thread.
static c10::Stream currentStream(c10::Device place) {
  return VirtualGuardImpl(place.type()).getStream(place);
}

void synchronize(c10::Device place) {
  if (isQueued(place))
    VirtualGuardImpl(place.type()).synchronizeStream(currentStream(place));
}

/// Calls `visit` with every tensor of `values` that is on a GPU.
template <typename Visit> static void visitQueued(llvm::ArrayRef<IValue> values, Visit visit) {
  for (const IValue &value : values)
    value.visit([&](const IValue &part) {
      if (part.isTensor() && part.toTensor().defined() && isQueued(part.toTensor().device()))
        visit(part.toTensor());
      return false;
    });
}

StreamEvents::StreamEvents(llvm::ArrayRef<IValue> values) {
  visitQueued(values, [&](const at::Tensor &tensor) {
    const c10::Device place = tensor.device();
    if (llvm::any_of(events, [&](const c10::Event &event) { return event.device() == place; }))
      return;
    events.emplace_back(place.type()).record(currentStream(place));
  });
}

void StreamEvents::wait() const {
  for (const c10::Event &event : events)
    event.block(currentStream(event.device()));
}

static void keepFor(const at::Tensor &tensor, c10::Stream stream) {
  // Sparse tensors have no storage; their component tensors do.
  if (tensor.has_storage())
    VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), stream);
}

void recordStream(llvm::ArrayRef<IValue> values) {
  visitQueued(values, [](const at::Tensor &tensor) { keepFor(tensor, currentStream(tensor.device())); });
}

void recordDefaultStream(const at::Tensor &tensor) {
  if (isQueued(tensor.device()))
    keepFor(tensor, VirtualGuardImpl(tensor.device().type()).getDefaultStream(tensor.device()));
}

} // namespace cleave::runtime
