//===- Presets.cpp - Machines from data sheets ----------------------------===//
#include "partitioner/machine/Machine.h"
#include "partitioner/machine/MachineFile.h"

#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using llvm::Expected;
using llvm::StringRef;

namespace cleave {

// Assumptions, which `cleave profile` replaces by measurements: one core of a current server CPU makes 32
// fp32 operations a cycle (two units of eight, fused multiply-add, or of sixteen half of the time) at about
// 3 GHz, and gets some 10 GB/s of main memory while its neighbours are busy too; libtorch spends about 2 us
// on dispatching an operator.
// Devices are threads of one process and hand tensors over by reference: a few us to wake the receiver, which
// then reads at memory speed. Their collectives are no rings: whatever the kind, ranks meet, and each reads
// what it needs of the others in place.
static constexpr double kCpuFlopsPerSecond = 100e9;
static constexpr double kCpuMemoryBytesPerSecond = 10e9;
static constexpr double kCpuOperatorSeconds = 2e-6;
static constexpr Link kCpuLink = {/*latencySeconds=*/5e-6, /*bytesPerSecond=*/10e9};

Machine Machine::cpu(uint32_t count) {
  Machine machine;
  machine.link = kCpuLink;
  machine.collectives = kCpuLink;
  for (size_t kind = 0; kind < std::size(kCollectiveKinds); ++kind)
    machine.collectives.measurementOf(CollectiveKind(kind)) = {kCpuLink.latencySeconds, /*ranks=*/0,
                                                               RateTable(kCpuLink.bytesPerSecond)};
  for (uint32_t index = 0; index < count; ++index)
    machine.devices.push_back({llvm::formatv("cpu:{0}", index).str(), kCpuFlopsPerSecond,
                               kCpuMemoryBytesPerSecond, kCpuOperatorSeconds, std::nullopt});
  return machine;
}

namespace {
/// Nodes of GPUs, by their data sheets: peaks, of which kernels get a part.
struct GpuNode {
  llvm::StringLiteral name;
  uint32_t devices;
  /// FP32 outside of tensor cores, as torch multiplies fp32 matrices unless told otherwise; and of tensor
  /// cores, dense.
  double flopsPerSecond, halfFlopsPerSecond;
  /// Tensor cores know bfloat16.
  bool hasBfloat16;
  double memoryBytesPerSecond;
  double memoryBytes;
  /// A GPU's in one direction: NVLink, and the network.
  double linkBytesPerSecond, networkBytesPerSecond;
};
} // namespace

// Sheets give NVLink in both directions together, and tensor cores with sparsity, twice of dense, from the
// H100 on.
static constexpr GpuNode kGpuNodes[] = {
    // NVIDIA V100 data sheet (2020), SXM2 16 GB: 15.7 and 125 TFLOPS, 900 GB/s, NVLink 300 GB/s in six links,
    // of which neighbours share two at most. Amazon EC2 P3: p3.16xlarge has eight GPUs, and a network of
    // 25 Gbit/s, which they share.
    {"p3.16xlarge", 8, 15.7e12, 125e12, false, 900e9, 16e9, 50e9, 25e9 / 8 / 8},
    // NVIDIA A100 data sheet (2021), SXM 80 GB: 19.5 and 312 TFLOPS, 2,039 GB/s, NVLink 600 GB/s. DGX A100
    // data sheet: eight, each with 200 Gbit/s InfiniBand.
    {"a100-80g", 8, 19.5e12, 312e12, true, 2039e9, 80e9, 300e9, 200e9 / 8},
    // NVIDIA H100 data sheet (2023), SXM: 67 and 1,979/2 TFLOPS, 3.35 TB/s, NVLink 900 GB/s. DGX H100 data
    // sheet: eight, each with 400 Gbit/s InfiniBand.
    {"h100", 8, 67e12, 989.5e12, true, 3350e9, 80e9, 450e9, 400e9 / 8},
    // NVIDIA H200 data sheet (2024), SXM: as the H100 with 141 GB at 4.8 TB/s. DGX H200 data sheet: the same
    // network.
    {"h200", 8, 67e12, 989.5e12, true, 4800e9, 141e9, 450e9, 400e9 / 8},
};

// Assumptions, which no sheet has: a kernel that is launched while others run adds some 5 us, a message
// within a node takes as long, one over InfiniBand twice that.
static constexpr double kLaunchSeconds = 5e-6, kLinkSeconds = 5e-6, kNetworkSeconds = 10e-6;

static Machine machineOf(const GpuNode &node, uint32_t count) {
  auto rates = std::make_shared<KernelRates>();
  for (GemmKind kind : {GemmKind::Matrix, GemmKind::Pointwise, GemmKind::Convolution, GemmKind::Strided,
                        GemmKind::Attention}) {
    rates->gemms[{kind, "float16"}] = RateTable(node.halfFlopsPerSecond);
    if (node.hasBfloat16)
      rates->gemms[{kind, "bfloat16"}] = RateTable(node.halfFlopsPerSecond);
  }
  Machine machine;
  for (uint32_t index = 0; index < count; ++index)
    machine.devices.push_back({llvm::formatv("cuda:{0}", index).str(), node.flopsPerSecond,
                               node.memoryBytesPerSecond, kLaunchSeconds, int64_t(node.memoryBytes), rates});
  machine.link = {kLinkSeconds, node.linkBytesPerSecond};
  if (count > node.devices)
    machine.nodes = {node.devices, {kNetworkSeconds, node.networkBytesPerSecond}};
  machine.collectives = machine.link;
  return machine;
}

/// `a100-80g:16`: a name, and how many devices; nothing where that is no number.
static std::pair<StringRef, std::optional<uint64_t>> splitPreset(StringRef word) {
  auto [name, digits] = word.rsplit(':');
  uint64_t count;
  if (digits.empty() || !llvm::all_of(digits, llvm::isDigit))
    return {name, std::nullopt};
  // Digits too many for an integer are the largest count there is.
  return {name, digits.getAsInteger(10, count) ? UINT64_MAX : count};
}

/// The preset most like `word`.
static std::string nearestPreset(StringRef word) {
  auto [name, count] = splitPreset(word);
  StringRef nearest = "cpu";
  unsigned least = name.size() / 2 + 1;
  for (const GpuNode &node : kGpuNodes)
    if (name.size() > 1 && (node.name.starts_with(name) || name.starts_with(node.name))) {
      nearest = node.name;
      least = 0;
    } else if (unsigned distance = name.edit_distance(node.name); distance < least) {
      nearest = node.name;
      least = distance;
    }
  if (name.edit_distance("cpu") <= least)
    nearest = "cpu";
  if (!count && nearest != "cpu")
    return nearest.str();
  return llvm::formatv("{0}:{1}", nearest, std::clamp<uint64_t>(count.value_or(1), 1, kMaxDevices)).str();
}

std::optional<Machine> Machine::preset(StringRef word) {
  auto [name, count] = splitPreset(word);
  const bool isNode = name == word, isCounted = count && *count >= 1 && *count <= kMaxDevices;
  if (name == "cpu" && isCounted)
    return cpu(*count);
  for (const GpuNode &node : kGpuNodes)
    if (name == node.name && (isNode || isCounted))
      return machineOf(node, count.value_or(node.devices));
  return std::nullopt;
}

Expected<Machine> Machine::load(StringRef presetOrPath) {
  if (std::optional<Machine> known = preset(presetOrPath))
    return *known;
  if (llvm::sys::fs::exists(presetOrPath))
    return readMachineFile(presetOrPath);
  return makeError(
      "machine '{0}': no such preset or file; presets are cpu:N, {1}, of which NAME:N are N devices, 1 "
      "to {2}; the nearest is {3}; give one of these, or a file as cleave profile writes it",
      presetOrPath, llvm::join(llvm::map_range(kGpuNodes, std::mem_fn(&GpuNode::name)), ", "), kMaxDevices,
      nearestPreset(presetOrPath));
}

} // namespace cleave
