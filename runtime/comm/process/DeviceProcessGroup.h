//===- DeviceProcessGroup.h - GPUs as a c10d group --------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_DEVICEPROCESSGROUP_H
#define CLEAVE_RUNTIME_COMM_PROCESS_DEVICEPROCESSGROUP_H

#include "runtime/comm/Transport.h"
#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

namespace c10d {
class Backend;
class Work;
} // namespace c10d

namespace cleave::runtime {

/// Several tensors as one contiguous byte buffer.
struct FlattenedTensors {
  at::Tensor bytes;
  /// By tensor: its number of bytes.
  std::vector<int64_t> counts;
};

/// Concatenates the bytes of tensors on the device `device`, each in row-major order.
FlattenedTensors flatten(llvm::ArrayRef<at::Tensor> parts, c10::Device device);
/// Copies the bytes of such a buffer back into tensors of any strides.
void unflatten(const at::Tensor &bytes, llvm::ArrayRef<at::Tensor> parts);

/// Process group of GPUs of several processes, over c10d (NCCL). All members make the same calls in the same
/// order, each from one thread. A call blocks the thread until its tensors are ready: so the call that fails
/// is known, and no kernel reads the result of an aborted one. Throws TransportClosed after `abort`, and what
/// c10d throws.
class DeviceProcessGroup {
public:
  explicit DeviceProcessGroup(c10::intrusive_ptr<c10d::Backend> backend);
  ~DeviceProcessGroup();

  /// All-reduce sum; the backend chooses the order of additions.
  at::Tensor allReduce(const at::Tensor &tensor);
  /// Returns the tensor of member `root`. The others pass a tensor of the same size and type.
  at::Tensor broadcast(const at::Tensor &tensor, uint32_t root);
  /// All-to-all: sends `inputs[i]` to member i and receives `outputs[i]` from it.
  void allToAll(llvm::ArrayRef<at::Tensor> inputs, llvm::ArrayRef<at::Tensor> outputs, c10::Device device);
  /// Point-to-point send or receive; no other call of the group may run meanwhile.
  std::unique_ptr<PendingMessage> send(uint32_t to, const at::Tensor &bytes);
  std::unique_ptr<PendingMessage> receive(uint32_t from, const at::Tensor &bytes);

  /// Aborts the group: ends every wait, pending or later, and the device's work for them, for which it waits
  /// a little. A c10d call that blocks forever, as it may on the first connection of two devices, is not
  /// ended. Thread-safe; may be called repeatedly.
  void abort();

private:
  class Pending;
  /// Returns when `work` has completed.
  void await(c10::intrusive_ptr<c10d::Work> work);
  /// Waits until the aborted backend has released its tensors; false where it does not within `limit`.
  bool hasLetGo(std::chrono::seconds limit) const;
  /// Returns what `call` returns. Throws TransportClosed where the run has ended before `call` fails, or soon
  /// after.
  template <typename Call> auto attempt(Call call);

  c10::intrusive_ptr<c10d::Backend> backend;
  std::atomic<bool> isClosed{false};
  /// Held while c10d is asked whether work has completed; it must not be asked while it is aborted.
  std::mutex asking;
  /// Set when the backend has been aborted, which may be after this object was destroyed.
  const std::shared_ptr<std::promise<void>> ended = std::make_shared<std::promise<void>>();
  const std::shared_future<void> letGo{ended->get_future()};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESS_DEVICEPROCESSGROUP_H
