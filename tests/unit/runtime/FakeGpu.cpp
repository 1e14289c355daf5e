//===- FakeGpu.cpp - Devices that note what they are asked for ------------===//
#include "tests/unit/runtime/FakeGpu.h"
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <atomic>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/library.h>
#include <utility>

namespace cleave::runtime {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

static std::mutex logMutex;
static std::vector<std::string> log;

static void note(std::string what) {
  std::lock_guard lock(logMutex);
  log.push_back(std::move(what));
}

std::vector<std::string> takeFakeGpuLog() {
  std::lock_guard lock(logMutex);
  return std::exchange(log, {});
}

static std::string nameOf(const Stream &stream) {
  return std::to_string(stream.device_index()) + "/" + std::to_string(stream.id());
}

namespace {

constexpr DeviceIndex kDevices = 2;
thread_local DeviceIndex currentDevice = 0;
thread_local c10::StreamId currentStreams[kDevices] = {};

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::kPrivateUse1;
  FakeGuard() = default;
  explicit FakeGuard(c10::DeviceType) {}

  c10::DeviceType type() const override { return static_type; }
  Device getDevice() const override { return {static_type, currentDevice}; }
  Device exchangeDevice(Device device) const override {
    return {static_type, std::exchange(currentDevice, device.index())};
  }
  void setDevice(Device device) const override { currentDevice = device.index(); }
  void uncheckedSetDevice(Device device) const noexcept override { currentDevice = device.index(); }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }

  Stream getStream(Device device) const override {
    return Stream(Stream::UNSAFE, device, currentStreams[device.index()]);
  }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    static std::atomic<c10::StreamId> last{0};
    return Stream(Stream::UNSAFE, device, ++last);
  }
  Stream exchangeStream(Stream stream) const override {
    return Stream(Stream::UNSAFE, stream.device(),
                  std::exchange(currentStreams[stream.device_index()], stream.id()));
  }
  void synchronizeStream(const Stream &stream) const override { note(nameOf(stream) + " finishes"); }

  /// An event is the name of the stream that it was recorded in.
  void record(void **event, const Stream &stream, DeviceIndex, c10::EventFlag) const override {
    destroyEvent(*event, 0);
    *event = new std::string(nameOf(stream));
    note(nameOf(stream) + " records");
  }
  void block(void *event, const Stream &stream) const override {
    note(nameOf(stream) + " waits for " + *static_cast<std::string *>(event));
  }
  void destroyEvent(void *event, DeviceIndex) const noexcept override {
    delete static_cast<std::string *>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr &, const Stream &stream) const override {
    note(nameOf(stream) + " keeps");
  }
};

struct FakeAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void *data = std::malloc(bytes + 1);
    return {data, data, std::free, {c10::kPrivateUse1, currentDevice}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return std::free; }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

FakeAllocator allocator;

} // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard);

static const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

static Tensor makeEmpty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<Device> device, std::optional<bool>,
                        std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard there(*device);
  return at::detail::empty_generic(sizes, &allocator, kKeys, dtype.value_or(at::kFloat), format);
}

static Tensor makeStrided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                          std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  c10::DeviceGuard there(*device);
  return at::detail::empty_strided_generic(sizes, strides, &allocator, kKeys, dtype.value_or(at::kFloat));
}

/// The same memory as a tensor on the CPU.
static Tensor onCpu(const Tensor &tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

static Tensor copyFrom(const Tensor &from, const Tensor &to, bool) {
  const FakeGuard guard;
  if (!from.is_cpu() && !to.is_cpu() && from.device() != to.device())
    note(nameOf(guard.getStream(from.device())) + " copies to " + nameOf(guard.getStream(to.device())));
  onCpu(to).copy_(onCpu(from));
  return to;
}

static Tensor copyAndResize(const Tensor &from, const Tensor &to) { return copyFrom(from, to, false); }

static void fallBack(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", makeEmpty);
  library.impl("empty_strided", makeStrided);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("_copy_from", copyFrom);
  library.impl("_copy_from_and_resize", copyAndResize);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallBack>());
}

c10::intrusive_ptr<c10d::Backend> FakePlugin::connect(int, c10::intrusive_ptr<c10d::Store>, int, int) const {
  return {};
}

namespace {
struct FakeGraph final : DeviceGraph {
  explicit FakeGraph(int &replays) : replays(replays) {}
  void replay() override { ++replays; }
  int &replays;
};
} // namespace

std::unique_ptr<DeviceGraph> FakePlugin::capture(int, const std::function<void()> &work) {
  ++captures;
  work();
  if (!failure.empty())
    throw std::runtime_error(failure);
  return std::make_unique<FakeGraph>(replays);
}

} // namespace cleave::runtime
