//===- Nccl.cpp - NCCL between GPUs of several processes ------------------===//
#include "runtime/device/cuda/Nccl.h"
#include <c10/util/env.h>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace cleave::runtime {

std::string identifyGpu(int index) {
  cudaDeviceProp properties;
  if (cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess)
    throw std::runtime_error(std::string("found no identity of the GPU: ") + cudaGetErrorString(error));
  std::string text = "GPU-";
  for (char byte : properties.uuid.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", unsigned(static_cast<unsigned char>(byte)));
    text += digits;
  }
  return text;
}

/// Settings that c10d reads from the environment when a group is made. Cleave has its own deadlines, and
/// reports failures to all processes; c10d's would come second and end the process without our message.
static constexpr std::pair<const char *, const char *> kSettings[] = {
    // No watchdog and no heartbeat monitor: they end the process by exceptions that cannot be caught.
    {"TORCH_NCCL_BLOCKING_WAIT", "1"},
    {"TORCH_NCCL_ENABLE_MONITORING", "0"},
    {"TORCH_NCCL_DESYNC_DEBUG", "0"},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
    // The flight recorder keeps events that only the watchdog releases, and does not support groups on
    // several threads.
    {"TORCH_NCCL_TRACE_BUFFER_SIZE", "0"},
    {"TORCH_FR_BUFFER_SIZE", "0"},
    // Each direction between two GPUs is a group of its own, which runs one operation at a time.
    {"TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "0"}};

void setNcclEnvironment() {
  static const bool isSet = [] {
    for (auto [name, value] : kSettings)
      c10::utils::set_env(name, value);
    return true;
  }();
  (void)isSet;
}

/// How long c10d waits for NCCL's abort before it complains. DeviceProcessGroup does not wait that long.
static constexpr std::chrono::seconds kAbort{5};

c10::intrusive_ptr<c10d::Backend> connectNccl(int index, c10::intrusive_ptr<c10d::Store> store, int rank,
                                              int size) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kAbort;
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, size, std::move(options));
  group->eagerConnectSingleDevice(at::Device(at::kCUDA, c10::DeviceIndex(index)));
  return group;
}

} // namespace cleave::runtime
