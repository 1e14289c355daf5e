//===- Device.cpp ---------------------------------------------------------===//
#include "runtime/Device.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/core/InferenceMode.h>
#include <pthread.h>

namespace cleave::runtime {

/// What was probably meant by a name that is not `cpu:N`: its number kept.
static std::string nearestDevice(llvm::StringRef name) {
  llvm::StringRef digits = name.take_back(name.size() - name.find_last_not_of("0123456789") - 1);
  unsigned index;
  return "cpu:" + (digits.getAsInteger(10, index) ? "0" : digits.str());
}

static llvm::Error checkDeviceName(llvm::StringRef name) {
  llvm::StringRef number = name;
  unsigned index;
  if (number.consume_front("cpu:") && llvm::all_of(number, llvm::isDigit) && !number.getAsInteger(10, index))
    return llvm::Error::success();
  if (name.starts_with("cuda:") || name == "cuda")
    return llvm::createStringError(
        "device %s: found a GPU, expected cpu:N, as this runtime has no GPU support; use %s",
        name.str().c_str(), nearestDevice(name).c_str());
  return llvm::createStringError("device %s: not a device, expected cpu:N; did you mean %s?",
                                 name.str().c_str(), nearestDevice(name).c_str());
}

llvm::Expected<std::vector<std::string>> resolveDevices(std::vector<std::string> names, size_t ranks) {
  if (names.empty())
    for (size_t rank = 0; rank < ranks; ++rank)
      names.push_back("cpu:" + std::to_string(rank));
  for (const std::string &name : names)
    if (llvm::Error error = checkDeviceName(name))
      return error;
  if (names.size() != ranks)
    return llvm::createStringError(
        "plan was compiled for %zu devices, %zu were given; pass --devices with %zu entries", ranks,
        names.size(), ranks);
  return names;
}

Device::Device(std::string name, int width)
    : deviceName(std::move(name)), account(new MemoryAccount(deviceName)),
      thread([this, width] { work(width); }) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return started; });
}

Device::~Device() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
}

void Device::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
  }
  changed.notify_all();
}

std::function<void()> Device::next() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ending || !tasks.empty(); });
  if (tasks.empty())
    return nullptr;
  std::function<void()> task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

void Device::work(int width) {
  pthread_setname_np(pthread_self(), deviceName.substr(0, 15).c_str());
  // Asking first makes libtorch set up this thread's state; without it the next line is undone by the first
  // operator.
  (void)at::get_num_threads();
  at::set_num_threads(width);
  c10::InferenceMode inference;
  ScopedAccount counted(*account);
  {
    std::lock_guard lock(mutex);
    started = true;
  }
  changed.notify_all();
  while (std::function<void()> task = next())
    task();
}

std::vector<std::unique_ptr<Device>> startDevices(llvm::ArrayRef<std::string> names) {
  const int threads = at::get_num_threads();
  const int width = std::max<int>(1, threads / std::max<int>(1, names.size()));
  std::vector<std::unique_ptr<Device>> devices;
  for (const std::string &name : names)
    devices.push_back(std::make_unique<Device>(name, width));
  // The width set last is what threads that start later would take for theirs.
  at::set_num_threads(threads);
  return devices;
}

} // namespace cleave::runtime
