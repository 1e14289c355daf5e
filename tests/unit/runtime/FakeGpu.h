//===- FakeGpu.h - Devices that note what they are asked for ----*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H
#define CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H

#include <c10/core/Device.h>
#include <string>
#include <vector>

namespace cleave::runtime {

/// A device of libtorch's like a GPU, with memory, streams and events, that does everything at once on the
/// CPU. What streams were asked for stands in a log: `0/2` is stream 2 of device 0, whose default stream is
/// `0/0`.
inline c10::Device fakeGpu(int index) { return {c10::kPrivateUse1, c10::DeviceIndex(index)}; }

/// What was noted since the last call: `0/1 records`, `0/2 waits for 0/1`, `0/2 keeps`, `0/1 copies to 1/3`,
/// `0/1 finishes`.
std::vector<std::string> takeFakeGpuLog();

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_FAKEGPU_H
