//===- Streams.h - Streams and events of GPUs -------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_STREAMS_H
#define CLEAVE_RUNTIME_DEVICE_STREAMS_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <vector>

namespace cleave::runtime {

/// True if calls on the device `device` are asynchronous, as on GPUs. Calls of one thread run in order, on
/// its current stream; calls of different threads are unordered.
bool isAsynchronous(c10::Device device);

/// A stream on the GPU `device`, from libtorch's pool.
c10::Stream newStream(c10::Device device);

/// Waits until all calls of this thread on the device `device` have completed; returns at once on the CPU.
/// Throws where one failed.
void synchronize(c10::Device device);

/// Events recorded on this thread's current streams of the GPUs that hold given values.
class StreamEvents {
public:
  /// No events: `wait` returns at once.
  StreamEvents() = default;
  explicit StreamEvents(llvm::ArrayRef<c10::IValue> values);
  /// Makes this thread's current streams wait for the events, without blocking the thread.
  void wait() const;

private:
  /// One for each GPU.
  std::vector<c10::Event> events;
};

/// c10's recordStream for every GPU tensor of `values`: its memory is not reused before pending work on this
/// thread's current stream has completed. For values that another thread made.
void recordStream(llvm::ArrayRef<c10::IValue> values);
/// As recordStream, for the default stream of the GPU of `tensor`.
void recordDefaultStream(const at::Tensor &tensor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_STREAMS_H
