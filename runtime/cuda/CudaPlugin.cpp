//===- CudaPlugin.cpp - CUDA devices --------------------------------------===//
#include "runtime/DevicePlugin.h"
#include "runtime/cuda/Nccl.h"
#include <ATen/Context.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/macros/Export.h>
#include <exception>
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
  std::unique_ptr<DeviceGraph> capture(int index, const std::function<void()> &work) override;
  void beginRange(const char *name) override { nvtxRangePushA(name); }
  void endRange() override { nvtxRangePop(); }
  std::string identify(int index) const override { return identifyGpu(index); }
  c10::intrusive_ptr<c10d::Backend> connect(int index, c10::intrusive_ptr<c10d::Store> store, int rank,
                                            int size) const override {
    return connectNccl(index, std::move(store), rank, size);
  }
};

class CudaGraph final : public DeviceGraph {
public:
  void replay() override { graph.replay(); }
  at::cuda::CUDAGraph graph;
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
  const int count = countDevices();
  // libtorch remembers for good that it has no CUDA once it was asked; at::manual_seed, for one, asks.
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
  // Makes the device's context here, where failing does no harm: the worker threads take it as given.
  c10::cuda::set_device(DeviceIndex(index), /*force=*/true);
  c10::cuda::CUDACachingAllocator::resetPeakStats(DeviceIndex(index));
}

std::unique_ptr<DeviceGraph> CudaPlugin::capture(int index, const std::function<void()> &work) {
  auto captured = std::make_unique<CudaGraph>();
  const at::cuda::MempoolId_t pool = at::cuda::graph_pool_handle();
  // Other threads go on to allocate and to wait meanwhile.
  captured->graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    captured->graph.capture_end();
  } catch (...) {
    // It throws before it tells the allocator that the capture is over.
    c10::cuda::CUDACachingAllocator::endAllocateToPool(DeviceIndex(index), pool);
    failure = failure ? failure : std::current_exception();
  }
  if (failure)
    std::rethrow_exception(failure);
  return captured;
}

int64_t CudaPlugin::peakBytes(int index) const {
  auto statistics = c10::cuda::CUDACachingAllocator::getDeviceStats(DeviceIndex(index));
  return statistics.allocated_bytes[size_t(StatType::AGGREGATE)].peak;
}

} // namespace cleave::runtime

extern "C" C10_EXPORT cleave::runtime::DevicePlugin *cleaveDevicePlugin2() {
  static cleave::runtime::CudaPlugin plugin;
  return &plugin;
}
