//===- CudaGraph.h - What a stream was given, as a whole --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H
#define CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H

#include "runtime/device/DevicePlugin.h"

namespace cleave::runtime {

/// See DevicePlugin::capture. A capture that fails leaves nothing behind, and captures have nothing to do
/// with the random numbers of the GPU: what draws some fails in a capture, and goes on elsewhere meanwhile.
std::unique_ptr<DeviceGraph> captureGraph(int index, const std::function<void()> &work);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H
