//===- CudaPlugin.cpp - CUDA devices --------------------------------------===//
#include "runtime/device/DevicePlugin.h"
#include "runtime/device/cuda/CudaGraph.h"
#include "runtime/device/cuda/Nccl.h"
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/macros/Export.h>
#include <map>
#include <mutex>
#include <nvtx3/nvToolsExt.h>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cleave::runtime {

using c10::DeviceIndex;
using c10::CachingAllocator::StatType;

namespace {

class CudaPlugin final : public DevicePlugin {
public:
  int start() override;
  void open(int index) override;
  int64_t peakBytes(int index) const override;
  c10::Stream takeStream(int index) override;
  void giveStream(c10::Stream stream) override;
  std::unique_ptr<DeviceGraph> capture(int index, const std::function<void()> &work) override {
    return captureGraph(index, work);
  }
  void beginRange(const char *name) override { nvtxRangePushA(name); }
  void endRange() override { nvtxRangePop(); }
  std::string identify(int index) const override { return identifyGpu(index); }
  c10::intrusive_ptr<c10d::Backend> connect(int index, c10::intrusive_ptr<c10d::Store> store, int rank,
                                            int size) const override {
    return connectNccl(index, std::move(store), rank, size);
  }

private:
  std::mutex mutex;
  /// By GPU: streams that were given back. They are never destroyed, since libtorch may remember memory that
  /// was used on them.
  std::map<int, std::vector<c10::Stream>> streams;
};

} // namespace

static int countDevices() {
  int count = 0;
  switch (cudaError_t error = c10::cuda::GetDeviceCount(&count)) {
  case cudaSuccess:
    return count;
  case cudaErrorNoDevice:
    return 0;
  case cudaErrorInsufficientDriver:
    throw std::runtime_error("found no NVIDIA driver, or one too old for CUDA " +
                             std::to_string(CUDART_VERSION / 1000) + "." +
                             std::to_string(CUDART_VERSION % 1000 / 10));
  default:
    throw std::runtime_error("the NVIDIA driver gave error " + std::to_string(error));
  }
}

int CudaPlugin::start() {
  setNcclEnvironment();
  const int count = countDevices();
  // Once asked, libtorch remembers for good that it has no CUDA; at::manual_seed, for one, asks.
  if (!at::globalContext().hasCUDART())
    throw std::runtime_error(
        "libtorch was asked about CUDA before the plugin was loaded; open the session on the "
        "GPU first");
  if (count > 0)
    at::globalContext().lazyInitDevice(at::kCUDA);
  return count;
}

void CudaPlugin::open(int index) {
  c10::cuda::CUDAGuard guard{DeviceIndex(index)};
  // Creates the device's context here, where a failure is reported; worker threads rely on it.
  c10::cuda::set_device(DeviceIndex(index), /*force=*/true);
  c10::cuda::CUDACachingAllocator::resetPeakStats(DeviceIndex(index));
}

c10::Stream CudaPlugin::takeStream(int index) {
  std::lock_guard lock(mutex);
  std::vector<c10::Stream> &unused = streams[index];
  if (!unused.empty()) {
    const c10::Stream stream = unused.back();
    unused.pop_back();
    return stream;
  }
  c10::cuda::CUDAGuard guard{DeviceIndex(index)};
  cudaStream_t stream = nullptr;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return c10::cuda::getStreamFromExternal(stream, DeviceIndex(index)).unwrap();
}

void CudaPlugin::giveStream(c10::Stream stream) {
  std::lock_guard lock(mutex);
  streams[stream.device_index()].push_back(stream);
}

int64_t CudaPlugin::peakBytes(int index) const {
  auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(DeviceIndex(index));
  return statistics.allocated_bytes[size_t(StatType::AGGREGATE)].peak;
}

} // namespace cleave::runtime

extern "C" C10_EXPORT cleave::runtime::DevicePlugin *cleaveDevicePlugin3() {
  static cleave::runtime::CudaPlugin plugin;
  return &plugin;
}
