//===- Streams.h - The order of what threads give GPUs ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_STREAMS_H
#define CLEAVE_RUNTIME_DEVICE_STREAMS_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <vector>

namespace cleave::runtime {

/// Whether calls that compute on `place` return before it is done: on GPUs. What a thread calls there is done
/// in order, in the thread's current stream; threads have no order among them.
bool isQueued(c10::Device place);

/// A stream on `place`, a GPU, out of libtorch's pool.
c10::Stream newStream(c10::Device place);

/// Returns when all is done that this thread has called on `place`: at once on the CPU. Throws where that
/// failed.
void synchronize(c10::Device place);

/// How far this thread had come, when the object was made, on the GPUs that hold some values.
class StreamEvents {
public:
  /// One that has been reached.
  StreamEvents() = default;
  explicit StreamEvents(llvm::ArrayRef<c10::IValue> values);
  /// What the calling thread calls on these GPUs from now on is done after it. The thread itself goes on.
  void wait() const;

private:
  /// One a GPU.
  std::vector<c10::Event> events;
};

/// Keeps the memory of `values`, of which another thread has made some on GPUs, from being used anew before
/// what this thread calls with them is done.
void recordStream(llvm::ArrayRef<c10::IValue> values);
/// The same for what anybody calls on the default stream of the GPU that `tensor` is on.
void recordDefaultStream(const at::Tensor &tensor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_STREAMS_H
