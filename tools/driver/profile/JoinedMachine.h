//===- JoinedMachine.h - One machine of several parts -----------*- C++ -*-===//
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

/// Ranks that follow one another on one host.
struct HostBlock {
  uint32_t first, count;
  bool operator==(const HostBlock &) const = default;
};

/// By rank, the host that each is on.
std::vector<HostBlock> blocksOf(llvm::ArrayRef<std::string> hosts);

/// Blocks that were measured each by itself, in the order of their ranks, and what lies between them.
struct MachineParts {
  std::vector<Machine> blocks;
  /// Between a block and a later one: all pairs.
  std::map<std::pair<uint32_t, uint32_t>, Link> links;
  /// Over all ranks.
  CollectiveCosts collectives;
};

/// All devices, in the order of blocks. Where blocks have equally many devices, they are nodes; blocks of one
/// device each are one node. Devices of a block whose products and other operators take what those of an
/// earlier one do, within a quarter in the mean, have its figures, so that one kind is described. Of links
/// the one in the middle is that of all, and those that are not alike stand beside it.
Machine joinMachines(const MachineParts &parts);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_JOINEDMACHINE_H
