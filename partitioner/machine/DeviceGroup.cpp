//===- DeviceGroup.cpp - Devices of one pipeline rank ---------------------===//
#include "partitioner/machine/DeviceGroup.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace cleave {

/// Costs of the slowest collective among the `count` devices from `first` on. In each block of `span`
/// consecutive devices, the devices that are `stride` apart form a group.
static CollectiveCosts collectivesOf(const Machine &machine, uint32_t first, uint32_t count, uint32_t span,
                                     uint32_t stride) {
  const CollectiveCosts &usual = machine.collectivesAmong(span);
  const Link &usualLink = machine.crossesNodes(span) ? machine.nodes->link : machine.link;
  std::vector<Link> unlike;
  bool hasUsual = machine.linkOverrides.empty() || span == stride;
  for (uint32_t from = first; from < first + count && !machine.linkOverrides.empty(); ++from) {
    const uint32_t group = first + (from - first) / span * span;
    for (uint32_t to = group + (from - group) % stride; to < group + span; to += stride) {
      auto found = machine.linkOverrides.find({from, to});
      if (found != machine.linkOverrides.end() && found->second != usualLink)
        unlike.push_back(found->second);
      else
        hasUsual |= from != to;
    }
  }
  CollectiveCosts costs = hasUsual || unlike.empty() ? usual : CollectiveCosts(unlike.front());
  for (const Link &link : unlike)
    costs.addLink(link);
  return costs;
}

CollectiveCosts dataParallelCollectivesOf(const Machine &machine, uint32_t first, uint32_t devicesPerGroup,
                                          uint32_t tensorParallelSize) {
  return collectivesOf(machine, first, devicesPerGroup, devicesPerGroup, tensorParallelSize);
}

DeviceGroup DeviceGroup::of(const Machine &machine, uint32_t first, uint32_t count,
                            uint32_t tensorParallelSize) {
  DeviceGroup group;
  for (uint32_t index = first; index < first + count; ++index) {
    const DeviceSpec &device = machine.devices[std::min<size_t>(index, machine.devices.size() - 1)];
    if (llvm::none_of(group.devices, [&](const DeviceSpec &other) { return device.computesLike(other); }))
      group.devices.push_back(device);
  }
  group.collectives = collectivesOf(machine, first, count, tensorParallelSize, /*stride=*/1);
  return group;
}

double DeviceGroup::dispatchSeconds() const {
  double most = 0;
  for (const DeviceSpec &device : devices)
    most = std::max(most, device.dispatchSeconds);
  return most;
}

bool DeviceGroup::operator==(const DeviceGroup &other) const {
  return std::equal(devices.begin(), devices.end(), other.devices.begin(), other.devices.end(),
                    [](const DeviceSpec &a, const DeviceSpec &b) { return a.computesLike(b); }) &&
         collectives == other.collectives;
}

std::map<std::pair<uint32_t, uint32_t>, Link> linkOverridesAmong(const Machine &machine, uint32_t count,
                                                                 uint32_t devicesPerGroup) {
  std::map<std::pair<uint32_t, uint32_t>, Link> links;
  for (const auto &[ends, link] : machine.linkOverrides)
    if (std::max(ends.first, ends.second) < count &&
        ends.first % devicesPerGroup == ends.second % devicesPerGroup && link != machine.linkAmong(count))
      links.emplace(ends, link);
  return links;
}

/// By sender and receiver rank of `devicesPerGroup` devices: the slowest latency and the slowest bandwidth
/// between devices of the same position.
static std::map<std::pair<uint32_t, uint32_t>, Link>
linksOfRanks(const Machine &machine, uint32_t count, uint32_t devicesPerGroup, const Link &usual) {
  std::map<std::pair<uint32_t, uint32_t>, Link> links;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> positions;
  auto slow = [](Link &one, const Link &other) {
    one.latencySeconds = std::max(one.latencySeconds, other.latencySeconds);
    one.bytesPerSecond = std::min(one.bytesPerSecond, other.bytesPerSecond);
  };
  for (const auto &[ends, link] : linkOverridesAmong(machine, count, devicesPerGroup)) {
    const std::pair ranks(ends.first / devicesPerGroup, ends.second / devicesPerGroup);
    slow(links.try_emplace(ranks, link).first->second, link);
    ++positions[ranks];
  }
  for (auto &[ranks, link] : links)
    if (positions[ranks] < devicesPerGroup)
      slow(link, usual);
  return links;
}

PipelineDeviceGroups::PipelineDeviceGroups(const Machine &machine, uint32_t ranks, uint32_t devicesPerGroup,
                                           uint32_t tensorParallelSize)
    : link(machine.linkAmong(ranks * devicesPerGroup)),
      linkOverrides(linksOfRanks(machine, ranks * devicesPerGroup, devicesPerGroup, link)) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    DeviceGroup group = DeviceGroup::of(machine, rank * devicesPerGroup, devicesPerGroup, tensorParallelSize);
    const uint32_t kind = llvm::find(kinds, group) - kinds.begin();
    if (kind == kinds.size())
      kinds.push_back(std::move(group));
    Rank &own = this->ranks.emplace_back(Rank{kind, std::nullopt});
    for (uint32_t index = rank * devicesPerGroup; index < (rank + 1) * devicesPerGroup; ++index)
      if (auto bytes = machine.devices[std::min<size_t>(index, machine.devices.size() - 1)].memoryBytes)
        own.memoryBytes = std::min(own.memoryBytes.value_or(*bytes), *bytes);
  }
}

const Link &PipelineDeviceGroups::linkBetween(uint32_t from, uint32_t to) const {
  auto unlike = linkOverrides.find({from, to});
  return unlike == linkOverrides.end() ? link : unlike->second;
}

std::vector<std::optional<int64_t>> PipelineDeviceGroups::memoryOfRanks() const {
  std::vector<std::optional<int64_t>> bytes;
  for (const Rank &rank : ranks)
    bytes.push_back(rank.memoryBytes);
  return bytes;
}

std::string MemoryShortage::describe() const {
  return llvm::formatv("takes {0} bytes on a device that has {1}", bytes, budget);
}

std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<int64_t> bytes,
                                         llvm::ArrayRef<std::optional<int64_t>> budgets) {
  std::optional<MemoryShortage> most;
  for (uint32_t rank = 0; rank < bytes.size(); ++rank)
    if (budgets[rank] && bytes[rank] > *budgets[rank] && (!most || bytes[rank] > most->bytes))
      most = MemoryShortage{rank, bytes[rank], *budgets[rank]};
  return most;
}

std::vector<StageDevice> PipelineDeviceGroups::stageDevices(uint32_t stages) const {
  std::vector<StageDevice> devices;
  for (uint32_t stage = 0; stage < stages; ++stage) {
    const uint32_t rank = stage % ranks.size();
    const Link &link = stage == 0 ? this->link : linkBetween((stage - 1) % ranks.size(), rank);
    devices.push_back({link, ranks[rank].memoryBytes, ranks[rank].kind});
  }
  return devices;
}

} // namespace cleave
