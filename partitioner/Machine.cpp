//===- Machine.cpp - Devices and links ------------------------------------===//
#include "partitioner/Machine.h"

#include "partitioner/MachineFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace cleave {

// Assumptions, which `cleave profile` replaces by measurements: one core of a current server CPU makes 32
// fp32 operations a cycle (two units of eight, fused multiply-add, or of sixteen half of the time) at about
// 3 GHz, and gets some 10 GB/s of main memory while its neighbours are busy too; libtorch spends about 2 us
// on dispatching an operator.
// Devices are threads of one process and hand tensors over by reference: a few us to wake the receiver, which
// then reads at memory speed.
static constexpr double kCpuFlopsPerSecond = 100e9;
static constexpr double kCpuMemoryBytesPerSecond = 10e9;
static constexpr double kCpuOperatorSeconds = 2e-6;
static constexpr Link kCpuLink = {/*latencySeconds=*/5e-6, /*bytesPerSecond=*/10e9};

Machine Machine::cpu(uint32_t count) {
  Machine machine;
  machine.link = kCpuLink;
  for (uint32_t index = 0; index < count; ++index)
    machine.devices.push_back({llvm::formatv("cpu:{0}", index).str(), kCpuFlopsPerSecond,
                               kCpuMemoryBytesPerSecond, kCpuOperatorSeconds, std::nullopt});
  return machine;
}

/// The preset most like `word`.
static std::string nearestPreset(StringRef word) {
  uint64_t count = 1;
  // Digits too many for an integer are the largest count there is.
  StringRef digits = word.rsplit(':').second;
  if (!digits.empty() && llvm::all_of(digits, llvm::isDigit) && digits.getAsInteger(10, count))
    count = kMostDevices;
  return llvm::formatv("cpu:{0}", std::clamp<uint64_t>(count, 1, kMostDevices)).str();
}

Expected<Machine> Machine::load(StringRef presetOrPath) {
  uint32_t count = 0;
  StringRef digits = presetOrPath;
  const bool isPreset = digits.consume_front("cpu:") && !digits.getAsInteger(10, count);
  if (isPreset && count >= 1 && count <= kMostDevices)
    return cpu(count);
  if (llvm::sys::fs::exists(presetOrPath))
    return readMachineFile(presetOrPath);
  return llvm::createStringError(
      llvm::formatv("machine '{0}': no such preset or file; presets are cpu:1 to cpu:{1}, the nearest is {2}",
                    presetOrPath, kMostDevices, nearestPreset(presetOrPath))
          .str());
}

} // namespace cleave
