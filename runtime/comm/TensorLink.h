//===- TensorLink.h - Tensors between two devices ---------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_TENSORLINK_H
#define CLEAVE_RUNTIME_COMM_TENSORLINK_H

#include "runtime/comm/Transport.h"
#include <ATen/core/Tensor.h>
#include <memory>

namespace cleave::runtime {

/// The way of tensors from a device of one process to one of another, without main memory. One thread at
/// either end. A tensor may wait at its end, holding the device up, until the other end asks for it: both ask
/// once they know of each other.
class TensorLink {
public:
  explicit TensorLink(c10::Device place) : place(place) {}
  virtual ~TensorLink() = default;

  /// Of rows of bytes, which are on `place`.
  virtual std::unique_ptr<Message> send(const at::Tensor &bytes) = 0;
  virtual std::unique_ptr<Message> receive(const at::Tensor &bytes) = 0;

  /// This process' device.
  const c10::Device place;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TENSORLINK_H
