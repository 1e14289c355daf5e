//===- FakeGpu.h - Devices that note what they are asked for ----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H
#define CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H

#include "runtime/device/DevicePlugin.h"
#include "runtime/device/Streams.h"
#include <c10/core/Device.h>
#include <string>
#include <vector>

namespace cleave::runtime {

/// A fake GPU: a libtorch device with memory, streams and events that runs everything synchronously on the
/// CPU. A log records calls on streams: `0/2` is stream 2 of device 0, `0/0` its default stream.
inline c10::Device fakeGpu(int index) { return {c10::kPrivateUse1, c10::DeviceIndex(index)}; }

/// Returns and clears the log: `0/1 records`, `0/2 waits for 0/1`, `0/2 keeps` (recordStream), `0/1 copies to
/// 1/3`, `0/1 finishes` (synchronize).
std::vector<std::string> takeFakeGpuLog();

/// Plugin of these devices, which counts calls. A capture runs the work; a replay does nothing.
class FakePlugin : public DevicePlugin {
public:
  int start() override { return 2; }
  void open(int) override {}
  int64_t peakBytes(int) const override { return 0; }
  c10::Stream takeStream(int index) override { return newStream(fakeGpu(index)); }
  void giveStream(c10::Stream stream) override { given.push_back(stream); }
  void beginRange(const char *name) override { ranges.push_back(name); }
  void endRange() override { ranges.push_back("end"); }
  std::string identify(int index) const override { return "GPU-" + std::to_string(index); }
  c10::intrusive_ptr<c10d::Backend> connect(int, c10::intrusive_ptr<c10d::Store>, int, int) const override;
  std::unique_ptr<DeviceGraph> capture(int index, const std::function<void()> &work) override;

  std::vector<c10::Stream> given;
  int captures = 0, replays = 0;
  /// Message with which captures fail; empty: they succeed.
  std::string failure;
  std::vector<std::string> ranges;
};

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H
