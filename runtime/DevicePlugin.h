//===- DevicePlugin.h - GPUs, where their libraries are ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICEPLUGIN_H
#define CLEAVE_RUNTIME_DEVICEPLUGIN_H

#include <cstdint>

namespace cleave::runtime {

/// What libtorch does not say in the same words for devices of every kind. Moving tensors and the order of
/// work are its own, once the plugin has brought the libraries in: threads that set no stream share one a
/// device, so what one of them gives it comes after what another gave before. Plugins link no LLVM: none
/// here.
class DevicePlugin {
public:
  virtual ~DevicePlugin() = default;
  /// The number of devices. Throws with the reason where they cannot be used.
  virtual int start() = 0;
  /// Makes device `index` ready and begins its peak anew with what it holds; throws where that fails.
  virtual void open(int index) = 0;
  /// Returns when device `index` has done what it was given; throws where that failed.
  virtual void finish(int index) const = 0;
  /// Most bytes of tensors on device `index` at one time, all users of this process together.
  virtual int64_t peakBytes(int index) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICEPLUGIN_H
