//===- Nccl.h - NCCL between GPUs of several processes ----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H
#define CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H

#include <c10/util/intrusive_ptr.h>
#include <string>

namespace c10d {
class Backend;
class Store;
} // namespace c10d

namespace cleave::runtime {

/// The UUID of device `index`, `GPU-5f2c…`: the same in all processes.
std::string identifyGpu(int index);

/// Disables c10d's NCCL watchdog through environment variables. Call before other threads read the
/// environment.
void setNcclEnvironment();

/// See DevicePlugin::connect.
c10::intrusive_ptr<c10d::Backend> connectNccl(int index, c10::intrusive_ptr<c10d::Store> store, int rank,
                                              int size);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H
