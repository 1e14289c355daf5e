//===- DeviceWorker.h - A device's worker thread ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICEWORKER_H
#define CLEAVE_RUNTIME_DEVICE_DEVICEWORKER_H

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
  /// The libtorch device. `cpu:N` is worker thread N of the CPU with its share of the cores; all are one
  /// libtorch device.
  c10::Device torchDevice = c10::kCPU;
  /// Null for the CPU.
  DevicePlugin *plugin = nullptr;
  /// Most bytes that it may hold at one time; 0: no limit. CPU only: a GPU is limited by its own memory.
  int64_t memoryLimit = 0;
};

/// Fails on a name that is not a device of this machine.
llvm::Expected<ResolvedDevice> resolveDevice(const std::string &name);

/// True for the name of a GPU (`cuda:0`).
bool isGpu(llvm::StringRef name);

/// Fails on a malformed device name. The device need not exist on this machine.
llvm::Error checkDeviceName(llvm::StringRef name);

/// Names the devices of a plan of `ranks` ranks: `names`, or `cpu:0` to `cpu:ranks-1` when there are none.
/// Fails on malformed names and on a wrong number of them.
llvm::Expected<std::vector<std::string>> nameDevices(std::vector<std::string> names, size_t ranks);
/// As nameDevices, and resolves them. Fails also on devices that this machine does not have.
llvm::Expected<std::vector<ResolvedDevice>> resolveDevices(std::vector<std::string> names, size_t ranks);

/// Worker thread of one device. Runs tasks in the order in which they were posted, in inference mode, with
/// its memory counted and with intra-op threads of its own. On a GPU it has its own stream, so that several
/// workers on one GPU run concurrently.
class DeviceWorker {
public:
  /// \param intraOpThreads  number of intra-op threads; at least 1.
  /// \param autocast        dtype of libtorch's autocast; nothing: off.
  DeviceWorker(ResolvedDevice device, int intraOpThreads,
               std::optional<c10::ScalarType> autocast = std::nullopt);
  /// Runs the tasks that were posted, then joins the thread.
  ~DeviceWorker();
  DeviceWorker(const DeviceWorker &) = delete;
  DeviceWorker &operator=(const DeviceWorker &) = delete;

  const std::string &name() const { return resolved.name; }
  c10::Device device() const { return resolved.torchDevice; }
  /// Null for the CPU.
  DevicePlugin *plugin() const { return resolved.plugin; }
  /// Number of intra-op threads.
  int threads() const { return intraOpThreads; }
  /// Counts CPU memory that the thread allocates.
  MemoryAccount &memory() const { return *account; }
  /// Counts weights as held. A GPU's allocator has counted them already.
  void holdWeights(int64_t bytes) const;
  /// Most bytes held at one time; of a GPU, by all users in this process.
  int64_t peakBytes() const;
  /// Copies tensors of other devices to this one; to a GPU on a stream of its own, beside computation. Called
  /// on the device's thread.
  void toDevice(llvm::MutableArrayRef<c10::IValue> values) const;
  /// Queues `task`, which must not throw.
  void post(std::function<void()> task);

private:
  void work();
  /// The next task; empty when the device ends.
  std::function<void()> next();

  const ResolvedDevice resolved;
  const int intraOpThreads;
  const std::optional<c10::ScalarType> autocast;
  const MemoryAccountRef account;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool started = false, ending = false;
  /// GPU only: the stream of computation, and the stream of copies to the device.
  const std::optional<c10::Stream> computing, copyStream;
  std::thread thread;
};

/// Starts the threads of the devices. The intra-op threads of this process (the cores it may use, or
/// OMP_NUM_THREADS) are divided evenly among CPU devices; a remainder stays unused. One device gets all
/// threads. The workers' intra-op threads together do not exceed the process's threads, unless there are more
/// devices than threads.
/// `processes` is the number of processes that share the cores; OMP_NUM_THREADS counts for each of them.
std::vector<std::unique_ptr<DeviceWorker>>
startWorkers(llvm::ArrayRef<ResolvedDevice> resolved, uint32_t processes = 1,
             std::optional<c10::ScalarType> autocast = std::nullopt);

/// Starts a thread that belongs to no rank and waits rather than computes.
std::unique_ptr<DeviceWorker> startHelperThread(const std::string &name);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICEWORKER_H
