//===- Nccl.h - GPUs of several processes -----------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H
#define CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H

#include <c10/util/intrusive_ptr.h>
#include <string>

namespace c10d {
class Backend;
class Store;
} // namespace c10d

namespace cleave::runtime {

/// `GPU-5f2c…`: the same for device `index` in all processes.
std::string identifyGpu(int index);

/// Tells c10d, by the environment, not to watch over groups. Before there are threads that read it.
void setNcclEnvironment();

/// See DevicePlugin::connect.
c10::intrusive_ptr<c10d::Backend> connectNccl(int index, c10::intrusive_ptr<c10d::Store> store, int rank,
                                              int size);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_CUDA_NCCL_H
