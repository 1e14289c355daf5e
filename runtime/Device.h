//===- Device.h - A device's worker thread ----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_H
#define CLEAVE_RUNTIME_DEVICE_H

#include "runtime/MemoryAccount.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace cleave::runtime {

/// The devices of a plan of `ranks` ranks: `names`, or `cpu:0` to `cpu:ranks-1` when there are none. Fails on
/// names that are no device of this machine and on a wrong number of them.
llvm::Expected<std::vector<std::string>> resolveDevices(std::vector<std::string> names, size_t ranks);

/// A thread that does the work of one device in the order it was posted, in inference mode, with its memory
/// counted and with intra-op threads of its own.
class Device {
public:
  /// \param width  how many threads an operator may use; at least 1.
  Device(std::string name, int width);
  /// Does what was posted, then ends the thread.
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const std::string &name() const { return deviceName; }
  MemoryAccount &memory() const { return *account; }
  /// `task` must not throw.
  void post(std::function<void()> task);

private:
  void work(int width);
  /// The next task; empty when the device ends.
  std::function<void()> next();

  const std::string deviceName;
  const MemoryAccountRef account;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool started = false, ending = false;
  std::thread thread;
};

/// One device a name, the threads of this process shared out evenly between them.
std::vector<std::unique_ptr<Device>> startDevices(llvm::ArrayRef<std::string> names);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_H
