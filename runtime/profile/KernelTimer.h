//===- KernelTimer.h - Times operators on devices ---------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H
#define CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/stack.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Times operators under the conditions of a plan: on device threads, with their share of the process's
/// intra-op threads, with their arenas, with the kernels that plans use, and on all devices at the same time.
/// The devices are one tensor-parallel group.
class KernelTimer {
public:
  /// Sets of operands for the device of `rank`. Calls use them in turn.
  using Operands = std::function<std::vector<torch::jit::Stack>(uint32_t rank)>;
  struct Call {
    /// `aten::add.Tensor`.
    std::string name;
    Operands operands;
  };

  /// Current time in seconds, called on a device's thread.
  using Clock = double (*)();
  /// Monotonic system clock.
  static double seconds();

  /// Fails for other devices than CPUs.
  /// \param measurementSeconds  how long each device measures for one call of `secondsOf`; at least one
  ///     sample is taken.
  static llvm::Expected<std::unique_ptr<KernelTimer>> open(llvm::ArrayRef<std::string> devices,
                                                           double measurementSeconds, Clock clock = seconds);
  virtual ~KernelTimer() = default;

  virtual size_t devices() const = 0;
  /// Intra-op threads of each device.
  virtual int threads() const = 0;
  /// Mean seconds of a call after warm-up, including waits for other devices.
  /// \param before  runs before each call and is not timed; the result is then the median. May be null.
  virtual llvm::Expected<double> secondsOf(const Call &timed, const Call *before = nullptr) = 0;
  /// Message sizes worth timing, ascending.
  virtual std::vector<int64_t> messageBytes() const = 0;
  /// Mean seconds until the next device has received a float32 tensor of `bytes` and added one to each
  /// element, over many round trips between the first two devices. With one device, nothing is sent.
  /// \param sends  false: the same additions on one device, without sending; the difference is the cost
  ///     of a message.
  virtual llvm::Expected<double> secondsOfMessage(int64_t bytes, bool sends) = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H
