//===- DevicePlugin.h - Interface of the CUDA plugin ------------*- C++ -*-===//
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

/// A captured sequence of GPU calls that can be replayed (CUDA graph).
class DeviceGraph {
public:
  virtual ~DeviceGraph() = default;
  /// Replays on the current stream of the device where it was captured.
  virtual void replay() = 0;
};

/// Device-specific calls that libtorch has no generic interface for. Tensor copies, streams and events
/// (`Streams.h`) use libtorch's generic interface, once the plugin has loaded the CUDA libraries. Plugins do
/// not link LLVM, so this header includes none of it.
class DevicePlugin {
public:
  virtual ~DevicePlugin() = default;
  /// Returns the number of devices. Throws with the reason where they cannot be used.
  virtual int start() = 0;
  /// Initializes device `index` and resets its peak to what it holds. Throws where that fails.
  virtual void open(int index) = 0;
  /// An exclusive stream on device `index`, until it is given back. Throws where none can be created.
  virtual c10::Stream takeStream(int index) = 0;
  virtual void giveStream(c10::Stream stream) = 0;
  /// Captures the calls of `work` on device `index` without executing them, on a stream that the thread has
  /// for that time. Throws where they cannot be captured, and what `work` throws.
  virtual std::unique_ptr<DeviceGraph> capture(int index, const std::function<void()> &work) = 0;
  /// A profiler range (NVTX) called `name` on this thread, until `endRange`.
  virtual void beginRange(const char *name) = 0;
  virtual void endRange() = 0;
  /// Most bytes of tensors on device `index` at one time, over all users in this process.
  virtual int64_t peakBytes(int index) const = 0;
  /// Globally unique id of device `index`: the same in every process.
  virtual std::string identify(int index) const = 0;
  /// Creates a c10d backend for device `index`, as member `rank` of `size` that meet at `store`. Blocks until
  /// all members have come, which may be never. Throws where they cannot be connected.
  virtual c10::intrusive_ptr<c10d::Backend> connect(int index, c10::intrusive_ptr<c10d::Store> store,
                                                    int rank, int size) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICEPLUGIN_H
