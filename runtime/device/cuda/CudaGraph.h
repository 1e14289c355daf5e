//===- CudaGraph.h - Capture of CUDA graphs ---------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H
#define CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H

#include "runtime/device/DevicePlugin.h"

namespace cleave::runtime {

/// See DevicePlugin::capture. A failed capture leaves nothing behind. Captures do not register the GPU's
/// random number generator: an operator that draws random numbers makes the capture fail, and other threads
/// may draw meanwhile.
std::unique_ptr<DeviceGraph> captureGraph(int index, const std::function<void()> &work);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_CUDA_CUDAGRAPH_H
