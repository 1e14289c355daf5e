//===- JoinedMachine.h - Joins machines of several hosts --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_JOINEDMACHINE_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_JOINEDMACHINE_H

#include "partitioner/machine/Machine.h"
#include "llvm/ADT/ArrayRef.h"
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cleave {

/// Consecutive ranks on one host.
struct HostRanks {
  uint32_t first, count;
  bool operator==(const HostRanks &) const = default;
};

/// Groups ranks by host; `hosts` is by rank.
std::vector<HostRanks> groupByHost(llvm::ArrayRef<std::string> hosts);

/// Separately measured blocks, in rank order, and the links between them.
struct MachineParts {
  std::vector<Machine> blocks;
  /// By pair of a block and a later one; all pairs.
  std::map<std::pair<uint32_t, uint32_t>, Link> links;
  /// Collectives over all ranks.
  CollectiveCosts collectives;
};

/// Joins all devices, in the order of blocks. If all blocks have the same number of devices, and more than
/// one, and there are several blocks, each becomes a node; else there are no nodes. Devices whose GEMMs and
/// other operators take the same time as those of an earlier block, within a quarter on average, get its
/// figures, so that they become one kind. The median link becomes the link of all pairs; links that differ
/// from it become overrides.
Machine joinMachines(const MachineParts &parts);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_JOINEDMACHINE_H
