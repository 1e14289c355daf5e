//===- DevicePlugin.h - GPUs, where their libraries are ---------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H
#define CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H

#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class Store;
} // namespace c10d

namespace cleave::runtime {

/// What was called in a stream of a GPU, to be done again as a whole.
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
  /// In the current stream of the device that it was captured on.
  virtual void replay() = 0;
};

/// What libtorch does not say in the same words for devices of every kind. Moving tensors, streams and events
/// (`Streams.h`) are its own, once the plugin has brought the libraries in. Plugins link no LLVM: none here.
class DevicePlugin {
public:
  virtual ~DevicePlugin() = default;
  /// The number of devices. Throws with the reason where they cannot be used.
  virtual int start() = 0;
  /// Makes device `index` ready and begins its peak anew with what it holds; throws where that fails.
  virtual void open(int index) = 0;
  /// A stream on device `index` that nobody else has until it is given back; throws where none can be made.
  virtual c10::Stream takeStream(int index) = 0;
  virtual void giveStream(c10::Stream stream) = 0;
  /// Captures what `work` calls on device `index`, in a stream that the thread has for that time; nothing of
  /// it is done. Throws where it cannot be captured, and what `work` throws.
  virtual std::unique_ptr<DeviceGraph> capture(int index, const std::function<void()> &work) = 0;
  /// What the thread calls until `endRange` stands under `name` in profiles.
  virtual void beginRange(const char *name) = 0;
  virtual void endRange() = 0;
  /// Most bytes of tensors on device `index` at one time, all users of this process together.
  virtual int64_t peakBytes(int index) const = 0;
  /// Which device of all machines `index` is: the same in every process, whatever its index there.
  virtual std::string identify(int index) const = 0;
  /// Connects device `index` with those of other processes, as member `rank` of `size` that meet at `store`.
  /// Returns when all of them have come, which may be never; throws where they cannot be connected.
  virtual c10::intrusive_ptr<c10d::Backend> connect(int index, c10::intrusive_ptr<c10d::Store> store,
                                                    int rank, int size) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H
