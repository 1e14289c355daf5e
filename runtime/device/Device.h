//===- Device.h - A device's worker thread ----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_DEVICE_H

#include "runtime/device/DevicePlugin.h"
#include "runtime/device/MemoryAccount.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cleave::runtime {

/// A device of this machine.
struct ResolvedDevice {
  std::string name;
  /// Where libtorch keeps what it computes. All of `cpu:N` are one place.
  c10::Device place = c10::kCPU;
  /// Null for the CPU.
  DevicePlugin *plugin = nullptr;
  /// Most bytes that it may hold at one time; 0: any. Of the CPU only: a GPU's memory is its own limit.
  int64_t memoryLimit = 0;
};

/// Fails on names that are no device of this machine.
llvm::Expected<ResolvedDevice> resolveDevice(const std::string &name);

/// Fails on a name that is none of a device, of this machine or another.
llvm::Error checkDeviceName(llvm::StringRef name);

/// The devices of a plan of `ranks` ranks: `names`, or `cpu:0` to `cpu:ranks-1` when there are none. Fails on
/// names that are no device and on a wrong number of them.
llvm::Expected<std::vector<std::string>> nameDevices(std::vector<std::string> names, size_t ranks);
/// The same devices. Fails on those that this machine does not have, too.
llvm::Expected<std::vector<ResolvedDevice>> resolveDevices(std::vector<std::string> names, size_t ranks);

/// A thread that does the work of one device in the order it was posted, in inference mode, with its memory
/// counted and with intra-op threads of its own; on a GPU in a stream of its own, so that devices that are
/// one GPU work side by side.
class Device {
public:
  /// \param width     how many threads an operator may use; at least 1.
  /// \param autocast  in which narrower type operators compute that may.
  Device(ResolvedDevice device, int width, std::optional<c10::ScalarType> autocast = std::nullopt);
  /// Does what was posted, then ends the thread.
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const std::string &name() const { return resolved.name; }
  c10::Device place() const { return resolved.place; }
  /// Null for the CPU.
  DevicePlugin *plugin() const { return resolved.plugin; }
  /// How many an operator may use.
  int threads() const { return width; }
  /// What its thread allocates on the CPU.
  MemoryAccount &memory() const { return *account; }
  /// Counts weights as held. A GPU's allocator has counted them already.
  void holdWeights(int64_t bytes) const;
  /// Most bytes held at one time; of a GPU, by all that use it.
  int64_t peakBytes() const;
  /// Brings here what other devices hold, to a GPU beside what it computes. Of the device's own thread.
  void toDevice(llvm::MutableArrayRef<c10::IValue> values) const;
  /// `task` must not throw.
  void post(std::function<void()> task);

private:
  void work();
  /// The next task; empty when the device ends.
  std::function<void()> next();

  const ResolvedDevice resolved;
  const int width;
  const std::optional<c10::ScalarType> autocast;
  const MemoryAccountRef account;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool started = false, ending = false;
  /// Of a GPU: where the thread computes, and where values come.
  const std::optional<c10::Stream> computing, copyStream;
  std::thread thread;
};

/// Starts the threads of the devices. The intra-op threads of this process (the cores it may use, or
/// OMP_NUM_THREADS) are shared out evenly between those on the CPU, what is left over to nobody: one device
/// has all, and devices times width are no more than threads, unless there are more devices than threads.
/// `processes` is how many share the cores; OMP_NUM_THREADS is of each of them.
std::vector<std::unique_ptr<Device>> startDevices(llvm::ArrayRef<ResolvedDevice> resolved,
                                                  uint32_t processes = 1,
                                                  std::optional<c10::ScalarType> autocast = std::nullopt);

/// Starts a thread beside those of the devices, which waits rather than computes.
std::unique_ptr<Device> startHelper(const std::string &name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICE_H
