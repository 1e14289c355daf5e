//===- KernelTimer.h - How long devices take for operators ------*- C++ -*-===//
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

/// Times operators as plans run them: on the threads of devices, with their share of the process's threads,
/// with memory from their arenas, by the kernels that a plan's operators are resolved to; and on all devices
/// at the same time, since a plan keeps all at work. The devices are one tensor group.
class KernelTimer {
public:
  /// How long is measured: so many seconds a device and call of the function, and once at least.
  struct Effort {
    double seconds;
  };
  /// Operands of calls that are made in turn, on the device of `rank`.
  using Operands = std::function<std::vector<torch::jit::Stack>(uint32_t rank)>;
  struct Call {
    /// `aten::add.Tensor`.
    std::string name;
    Operands operands;
  };

  /// Seconds since any time, asked on a device's own thread.
  using Clock = double (*)();
  /// Of the system, never set back.
  static double seconds();

  /// CPU devices: fails for others.
  static llvm::Expected<std::unique_ptr<KernelTimer>> open(llvm::ArrayRef<std::string> devices, Effort effort,
                                                           Clock clock = seconds);
  virtual ~KernelTimer() = default;

  virtual size_t devices() const = 0;
  /// Of each device.
  virtual int threads() const = 0;
  /// Mean seconds of a call, after some to warm up; of one that waits for the other devices, waiting
  /// included.
  /// \param before  is called before each, and its time does not count; of such calls the median. May be
  ///                null.
  virtual llvm::Expected<double> secondsOf(const Call &timed, const Call *before = nullptr) = 0;
  /// What hand-overs are worth timing, ascending.
  virtual std::vector<int64_t> handoverBytes() const = 0;
  /// Seconds until the next device has a float32 tensor of so many bytes and has added one to each element:
  /// mean of many hand-overs, to and fro between the first two devices; with one device, without handing
  /// over.
  virtual llvm::Expected<double> secondsOfHandover(int64_t bytes, bool handsOver) = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_KERNELTIMER_H
