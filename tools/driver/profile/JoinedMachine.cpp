//===- JoinedMachine.cpp - Joins machines of several hosts ----------------===//
#include "tools/driver/profile/JoinedMachine.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>

namespace cleave {

std::vector<HostRanks> groupByHost(llvm::ArrayRef<std::string> hosts) {
  std::vector<HostRanks> blocks;
  for (uint32_t rank = 0; rank < hosts.size(); ++rank)
    if (rank > 0 && hosts[rank] == hosts[rank - 1])
      ++blocks.back().count;
    else
      blocks.push_back({rank, 1});
  return blocks;
}

//===- What is alike ------------------------------------------------------===//

static double secondsOf(const Link &link, double bytes) {
  return link.latencySeconds + bytes / link.bytesPerSecond;
}

/// Bytes of a small and of a large transfer between stages.
static constexpr double kSmall = 64 << 10, kLarge = 4 << 20;

static bool areAlike(const Link &one, const Link &other) {
  constexpr double kFactor = 1.5;
  auto like = [&](double bytes) {
    const double ratio = secondsOf(one, bytes) / secondsOf(other, bytes);
    return ratio < kFactor && ratio > 1 / kFactor;
  };
  return like(kSmall) && like(kLarge);
}

/// Appends the logarithms of the ratios of both tables' rates, point by point; false for different points.
static bool addRatios(const RateTable &one, const RateTable &other, std::vector<double> &ratios) {
  if (one.axisSizes() != other.axisSizes())
    return false;
  for (auto [rate, otherRate] : llvm::zip(one.allRates(), other.allRates()))
    ratios.push_back(std::log(rate / otherRate));
  return true;
}

template <typename Key>
static bool haveLikeRates(const std::map<Key, RateTable> &one, const std::map<Key, RateTable> &other) {
  const double most = std::log(1.25);
  std::vector<double> ratios;
  if (one.size() != other.size())
    return false;
  for (const auto &[key, table] : one)
    if (auto found = other.find(key); found == other.end() || !addRatios(table, found->second, ratios))
      return false;
  double sum = 0;
  for (double ratio : ratios)
    sum += ratio;
  return ratios.empty() || std::abs(sum / double(ratios.size())) < most;
}

static bool areAlike(const DeviceSpec &one, const DeviceSpec &other) {
  return one.rates && other.rates ? haveLikeRates(one.rates->gemms, other.rates->gemms) &&
                                        haveLikeRates(one.rates->operators, other.rates->operators)
                                  : one.computesLike(other);
}

/// The median link by the time of a large message; nothing if there is none.
static std::optional<Link> usualOf(std::vector<Link> links) {
  if (links.empty())
    return std::nullopt;
  const auto middle = links.begin() + links.size() / 2;
  std::nth_element(links.begin(), middle, links.end(),
                   [](const Link &a, const Link &b) { return secondsOf(a, kLarge) < secondsOf(b, kLarge); });
  return *middle;
}

//===- Joining ------------------------------------------------------------===//

static void joinDevices(const MachineParts &parts, Machine &machine) {
  for (const Machine &block : parts.blocks) {
    const DeviceSpec *known = nullptr;
    for (const DeviceSpec &device : machine.devices)
      if (!known && areAlike(device, block.devices.front()))
        known = &device;
    // A copy, since the list grows.
    const DeviceSpec figures = known ? *known : block.devices.front();
    for (const DeviceSpec &device : block.devices) {
      DeviceSpec &added = machine.devices.emplace_back(figures);
      added.name = device.name;
      added.memoryBytes = device.memoryBytes;
      added.threads = device.threads;
    }
  }
}

/// The measured costs, or those of the link if there are none.
static CollectiveCosts withLink(const CollectiveCosts &measured, const Link &link) {
  CollectiveCosts costs = link;
  for (size_t kind = 0; kind < std::size(kCollectiveKinds); ++kind)
    costs.measurementOf(CollectiveKind(kind)) = measured.measurementOf(CollectiveKind(kind));
  return costs;
}

/// Sets the median links, within blocks and between them, and the collectives over each.
static void joinUsual(const MachineParts &parts, Machine &machine) {
  const Machine &largest = *llvm::max_element(
      parts.blocks, [](const Machine &a, const Machine &b) { return a.devices.size() < b.devices.size(); });
  const uint32_t size = largest.devices.size();
  const bool areEqual =
      llvm::all_of(parts.blocks, [&](const Machine &block) { return block.devices.size() == size; });
  std::vector<Link> within, between;
  for (const Machine &block : parts.blocks)
    if (block.devices.size() > 1)
      within.push_back(block.link);
  for (const auto &[blocks, link] : parts.links)
    between.push_back(link);
  const Link apart = usualOf(between).value_or(largest.link);
  machine.link = usualOf(within).value_or(apart);
  machine.collectives = withLink(size > 1 ? largest.collectives : parts.collectives, machine.link);
  if (areEqual && size > 1 && parts.blocks.size() > 1)
    machine.nodes = {size, apart, withLink(parts.collectives, apart)};
}

/// Adds overrides for links that differ from those.
static void joinLinkOverrides(const MachineParts &parts, Machine &machine) {
  std::vector<uint32_t> blockOf;
  for (auto [index, block] : llvm::enumerate(parts.blocks))
    blockOf.insert(blockOf.end(), block.devices.size(), index);
  for (uint32_t from = 0; from < blockOf.size(); ++from)
    for (uint32_t to = from + 1; to < blockOf.size(); ++to) {
      const bool isWithin = blockOf[from] == blockOf[to];
      const Link &usual = isWithin || !machine.nodes ? machine.link : machine.nodes->link;
      const Link &found =
          isWithin ? parts.blocks[blockOf[from]].link : parts.links.at({blockOf[from], blockOf[to]});
      if (!areAlike(found, usual))
        machine.linkOverrides[{from, to}] = machine.linkOverrides[{to, from}] = found;
    }
}

Machine joinMachines(const MachineParts &parts) {
  Machine machine;
  joinDevices(parts, machine);
  joinUsual(parts, machine);
  joinLinkOverrides(parts, machine);
  return machine;
}

} // namespace cleave
