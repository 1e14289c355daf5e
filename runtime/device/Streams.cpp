//===- Streams.cpp - Streams and events of GPUs ---------------------------===//
#include "runtime/device/Streams.h"
#include "llvm/ADT/STLExtras.h"
#include <c10/core/impl/VirtualGuardImpl.h>

namespace cleave::runtime {

using c10::IValue;
using c10::impl::VirtualGuardImpl;

bool isAsynchronous(c10::Device device) { return !device.is_cpu() && !device.is_meta(); }

c10::Stream newStream(c10::Device device) {
  return VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

/// Current stream of this thread.
static c10::Stream currentStream(c10::Device device) {
  return VirtualGuardImpl(device.type()).getStream(device);
}

void synchronize(c10::Device device) {
  if (isAsynchronous(device))
    VirtualGuardImpl(device.type()).synchronizeStream(currentStream(device));
}

/// Calls `visit` with every tensor of `values` that is on a GPU.
template <typename Visit> static void visitAsynchronous(llvm::ArrayRef<IValue> values, Visit visit) {
  for (const IValue &value : values)
    value.visit([&](const IValue &part) {
      if (part.isTensor() && part.toTensor().defined() && isAsynchronous(part.toTensor().device()))
        visit(part.toTensor());
      return false;
    });
}

StreamEvents::StreamEvents(llvm::ArrayRef<IValue> values) {
  visitAsynchronous(values, [&](const at::Tensor &tensor) {
    const c10::Device device = tensor.device();
    if (llvm::any_of(events, [&](const c10::Event &event) { return event.device() == device; }))
      return;
    events.emplace_back(device.type()).record(currentStream(device));
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
  visitAsynchronous(values,
                    [](const at::Tensor &tensor) { keepFor(tensor, currentStream(tensor.device())); });
}

void recordDefaultStream(const at::Tensor &tensor) {
  if (isAsynchronous(tensor.device()))
    keepFor(tensor, VirtualGuardImpl(tensor.device().type()).getDefaultStream(tensor.device()));
}

} // namespace cleave::runtime
