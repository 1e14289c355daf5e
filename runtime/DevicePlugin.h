//===- DevicePlugin.h - GPUs, where their libraries are ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICEPLUGIN_H
#define CLEAVE_RUNTIME_DEVICEPLUGIN_H

#include <cstdint>

namespace cleave::runtime {

/// What libtorch does not say in the same words for devices of every kind. Moving tensors, streams and events
/// (`Streams.h`) are its own, once the plugin has brought the libraries in. Plugins link no LLVM: none here.
class DevicePlugin {
public:
  virtual ~DevicePlugin() = default;
  /// The number of devices. Throws with the reason where they cannot be used.
  virtual int start() = 0;
  /// Makes device `index` ready and begins its peak anew with what it holds; throws where that fails.
  virtual void open(int index) = 0;
  /// Most bytes of tensors on device `index` at one time, all users of this process together.
  virtual int64_t peakBytes(int index) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICEPLUGIN_H
