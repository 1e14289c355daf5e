//===- TensorLink.h - Tensors between devices of two processes --*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_TENSORLINK_H
#define CLEAVE_RUNTIME_COMM_TENSORLINK_H

#include "runtime/comm/Transport.h"
#include <ATen/core/Tensor.h>
#include <memory>

namespace cleave::runtime {

/// Point-to-point connection between a device of this process and a device of another process, bypassing the
/// CPU. One thread uses each end. A pending send or receive may block its device until the other end issues
/// the matching call, so both ends first agree on the transfer by a message, and only then call.
class TensorLink {
public:
  explicit TensorLink(c10::Device device) : device(device) {}
  virtual ~TensorLink() = default;

  /// Sends, or receives into, `bytes`: a contiguous byte tensor on the device `device`.
  virtual std::unique_ptr<PendingMessage> send(const at::Tensor &bytes) = 0;
  virtual std::unique_ptr<PendingMessage> receive(const at::Tensor &bytes) = 0;

  /// The device of this process.
  const c10::Device device;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TENSORLINK_H
