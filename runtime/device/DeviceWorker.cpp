//===- DeviceWorker.cpp ---------------------------------------------------===//
#include "runtime/device/DeviceWorker.h"
#include "runtime/base/AlternateStack.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/device/PluginLoader.h"
#include "runtime/device/Streams.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <algorithm>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <cstdlib>
#include <pthread.h>

namespace cleave::runtime {

/// The device of `kind` with the number in `name`.
static std::string nearestDevice(llvm::StringRef kind, llvm::StringRef name) {
  llvm::StringRef digits = name.take_back(name.size() - name.find_last_not_of("0123456789") - 1);
  unsigned index;
  return (kind + ":" + (digits.getAsInteger(10, index) ? "0" : digits)).str();
}

/// The number in `cuda:3` for the kind `cuda`; nothing for other names.
static std::optional<unsigned> indexIn(llvm::StringRef name, llvm::StringRef kind) {
  unsigned index;
  if (!name.consume_front(kind) || !name.consume_front(":") || !llvm::all_of(name, llvm::isDigit) ||
      name.getAsInteger(10, index))
    return std::nullopt;
  return index;
}

bool isGpu(llvm::StringRef name) { return name.starts_with("cuda"); }

llvm::Error checkDeviceName(llvm::StringRef name) {
  if (indexIn(name, "cpu") || indexIn(name, "cuda"))
    return llvm::Error::success();
  return llvm::createStringError("device " + name +
                                 ": not a device, expected cpu:N or cuda:N; did you mean " +
                                 nearestDevice(isGpu(name) ? "cuda" : "cpu", name) + "?");
}

/// The plugin, after it has initialized GPU `index`.
static llvm::Expected<DevicePlugin *> pluginFor(unsigned index) {
  auto plugin = loadCudaPlugin(pluginFolders());
  if (!plugin)
    return plugin.takeError();
  return catching([&]() -> llvm::Expected<DevicePlugin *> {
    const int count = (*plugin)->start();
    if (index >= unsigned(count))
      return llvm::createStringError("found " + llvm::Twine(count) + " GPUs, expected more than " +
                                     llvm::Twine(index));
    (*plugin)->open(int(index));
    return *plugin;
  });
}

llvm::Expected<ResolvedDevice> resolveDevice(const std::string &name) {
  if (llvm::Error error = checkDeviceName(name))
    return error;
  std::optional<unsigned> index = indexIn(name, "cuda");
  if (!index)
    return ResolvedDevice{name};
  auto plugin = pluginFor(*index);
  if (!plugin)
    return llvm::createStringError("device " + name + ": " + llvm::toString(plugin.takeError()) + "; use " +
                                   nearestDevice("cpu", name));
  return ResolvedDevice{name, c10::Device(c10::kCUDA, c10::DeviceIndex(*index)), *plugin};
}

llvm::Expected<std::vector<std::string>> nameDevices(std::vector<std::string> names, size_t ranks) {
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

llvm::Expected<std::vector<ResolvedDevice>> resolveDevices(std::vector<std::string> given, size_t ranks) {
  auto names = nameDevices(std::move(given), ranks);
  if (!names)
    return names.takeError();
  std::vector<ResolvedDevice> devices;
  for (const std::string &name : *names) {
    auto device = resolveDevice(name);
    if (!device)
      return device.takeError();
    devices.push_back(std::move(*device));
  }
  return devices;
}

/// A stream from the plugin: libtorch's pool is small, and devices would share its streams.
static std::optional<c10::Stream> takeStream(const ResolvedDevice &device) {
  if (!isAsynchronous(device.torchDevice))
    return std::nullopt;
  return device.plugin ? device.plugin->takeStream(device.torchDevice.index())
                       : newStream(device.torchDevice);
}

DeviceWorker::DeviceWorker(ResolvedDevice device, int intraOpThreads, std::optional<c10::ScalarType> autocast)
    : resolved(std::move(device)), intraOpThreads(intraOpThreads), autocast(autocast),
      account(new MemoryAccount(resolved.name, resolved.plugin ? 0 : resolved.memoryLimit)),
      computing(takeStream(resolved)), copyStream(takeStream(resolved)), thread([this] { work(); }) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return started; });
}

DeviceWorker::~DeviceWorker() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
  if (resolved.plugin)
    for (const auto &stream : {computing, copyStream})
      resolved.plugin->giveStream(*stream);
}

void DeviceWorker::holdWeights(int64_t bytes) const {
  if (!resolved.plugin)
    account->hold(bytes);
}

int64_t DeviceWorker::peakBytes() const {
  return resolved.plugin ? resolved.plugin->peakBytes(resolved.torchDevice.index()) : account->peakBytes();
}

void DeviceWorker::toDevice(llvm::MutableArrayRef<c10::IValue> values) const {
  c10::OptionalStreamGuard beside(copyStream);
  for (c10::IValue &value : values)
    value = movedTo(device(), std::move(value));
  if (!copyStream)
    return;
  const StreamEvents arrived(values);
  beside.reset();
  arrived.wait();
  recordStream(values);
}

void DeviceWorker::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
  }
  changed.notify_all();
}

std::function<void()> DeviceWorker::next() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ending || !tasks.empty(); });
  if (tasks.empty())
    return nullptr;
  std::function<void()> task = std::move(tasks.front());
  tasks.pop_front();
  return task;
}

void DeviceWorker::work() {
  const AlternateStack alternate;
  pthread_setname_np(pthread_self(), name().substr(0, 15).c_str());
  // The call makes libtorch initialize this thread's state; otherwise the first operator would undo the next
  // line.
  (void)at::get_num_threads();
  at::set_num_threads(intraOpThreads);
  c10::InferenceMode inference;
  c10::DeviceGuard there(resolved.torchDevice);
  c10::OptionalStreamGuard own(computing);
  if (autocast) {
    at::autocast::set_autocast_enabled(device().type(), true);
    at::autocast::set_autocast_dtype(device().type(), *autocast);
  }
  ScopedAccount counted(*account);
  {
    std::lock_guard lock(mutex);
    started = true;
  }
  changed.notify_all();
  while (std::function<void()> task = next())
    task();
  try {
    // Kernels of a failed request may still read weights, whose memory is about to be reused.
    synchronize(device());
  } catch (const std::exception &) {
    // Already reported as the request's failure, or of no interest.
  }
}

/// MKL chooses the kernels of its vector mathematics at the first call. Two threads that call it first at
/// once may get others, which are right to 1e-5 only; so the first call is made before there are threads.
static void chooseVectorKernels() {
  [[maybe_unused]] static const at::Tensor chosen = at::tanh(at::ones({16}));
}

std::vector<std::unique_ptr<DeviceWorker>> startWorkers(llvm::ArrayRef<ResolvedDevice> resolved,
                                                        uint32_t processes,
                                                        std::optional<c10::ScalarType> autocast) {
  chooseVectorKernels();
  const int threads = at::get_num_threads();
  const int shared = std::getenv("OMP_NUM_THREADS") ? threads : threads / int(processes);
  const int cpus = llvm::count_if(resolved, [](const ResolvedDevice &device) { return !device.plugin; });
  const int intraOpThreads = std::max<int>(1, shared / std::max<int>(1, cpus));
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  for (const ResolvedDevice &device : resolved)
    workers.push_back(std::make_unique<DeviceWorker>(device, intraOpThreads, autocast));
  // Threads that start later would inherit the number that was set last.
  at::set_num_threads(threads);
  return workers;
}

std::unique_ptr<DeviceWorker> startHelperThread(const std::string &name) {
  const int threads = at::get_num_threads();
  auto helper = std::make_unique<DeviceWorker>(ResolvedDevice{name}, /*intraOpThreads=*/1);
  at::set_num_threads(threads);
  return helper;
}

} // namespace cleave::runtime
