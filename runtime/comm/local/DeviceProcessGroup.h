//===- DeviceProcessGroup.h - GPUs of several processes, connected -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_LOCAL_DEVICEPROCESSGROUP_H
#define CLEAVE_RUNTIME_COMM_LOCAL_DEVICEPROCESSGROUP_H

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

/// Tensors as one row of bytes.
struct FlatParts {
  at::Tensor bytes;
  /// How many bytes each of them has.
  std::vector<int64_t> counts;
};

/// The bytes of tensors on `place`, one after the other, each in row-major order.
FlatParts flatten(llvm::ArrayRef<at::Tensor> parts, c10::Device place);
/// Fills tensors, of any strides, with the bytes of a row.
void unflatten(const at::Tensor &bytes, llvm::ArrayRef<at::Tensor> parts);

/// Devices of several processes between which c10d moves tensors: GPUs, by NCCL. All members make the same
/// calls in the same order, each from one thread, and a call returns when its tensors are there: the thread
/// waits, so that it is known where, and nothing that was cut short is computed with. Throws TransportClosed after
/// `abort`, and what c10d throws.
class DeviceProcessGroup {
public:
  explicit DeviceProcessGroup(c10::intrusive_ptr<c10d::Backend> backend);
  ~DeviceProcessGroup();

  /// The sum over all members, by the device's own order of adding.
  at::Tensor sum(const at::Tensor &tensor);
  /// What member `root` gives; the others give one of the same size and type.
  at::Tensor broadcast(const at::Tensor &tensor, uint32_t root);
  /// Gives `given[i]` to member i and fills `taken[i]` with what that gives here.
  void swap(llvm::ArrayRef<at::Tensor> given, llvm::ArrayRef<at::Tensor> taken, c10::Device place);
  /// From this member to another, or back. Nothing else may be between them meanwhile.
  std::unique_ptr<Message> send(uint32_t to, const at::Tensor &bytes);
  std::unique_ptr<Message> receive(uint32_t from, const at::Tensor &bytes);

  /// Ends every wait, now and later, and has the device end what it does for them, for which it waits a
  /// little. A call of c10d's that does not return, as it may where two devices first meet, is not ended. Of
  /// any thread, once or more often.
  void abort();

private:
  class Pending;
  /// Returns when `work` is done.
  void await(c10::intrusive_ptr<c10d::Work> work);
  /// Waits for the device to let go of everything, after `abort`; false where it does not.
  bool hasLetGo(std::chrono::seconds limit) const;
  /// What `call` gives; throws TransportClosed where the run ends before or soon after it fails.
  template <typename Call> auto attempt(Call call);

  c10::intrusive_ptr<c10d::Backend> backend;
  std::atomic<bool> isCut{false};
  /// Held while c10d is asked how far it is, which it does not say while it is aborted.
  std::mutex asking;
  /// Set when it has been aborted, which may be after this object.
  const std::shared_ptr<std::promise<void>> ended = std::make_shared<std::promise<void>>();
  const std::shared_future<void> letGo{ended->get_future()};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_LOCAL_DEVICEPROCESSGROUP_H
