//===- DeviceGroup.h - Where the ranks of a pipeline are --------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H
#define CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H

#include "partitioner/machine/Machine.h"
#include "partitioner/machine/StageDevice.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// Devices that do the same operations at the same time, each on a part of their tensors or of the batch: an
/// operation takes what it takes on the slowest.
struct DeviceGroup {
  /// Those that compute unlike each other, each once.
  std::vector<DeviceSpec> devices;
  /// Of a tensor group; where there are several, of the slowest.
  CollectiveCosts collectives;

  /// `count` devices of the machine from `first` on, in groups of `tensorRanks` one behind the other. What
  /// the machine lacks is as its last device.
  static DeviceGroup of(const Machine &machine, uint32_t first, uint32_t count, uint32_t tensorRanks);
  /// Spent on every operator besides its work.
  double operatorSeconds() const;
  bool operator==(const DeviceGroup &other) const;
};

/// Of the `width` devices from `first` on, in tensor groups of `tensorRanks` side by side, those of the same
/// position in these: they hold the same, each for a part of the batch.
CollectiveCosts collectivesOfData(const Machine &machine, uint32_t first, uint32_t width,
                                  uint32_t tensorRanks);

/// The groups of a pipeline's ranks: a machine's first devices in their order, as many for each rank.
struct PipelineDeviceGroups {
  struct Rank {
    /// In `kinds`.
    uint32_t kind;
    /// Of the device that has least; nothing: none is limited.
    std::optional<int64_t> memoryBytes;
  };
  std::vector<Rank> ranks;
  /// Those that price operations unlike each other, each once.
  std::vector<DeviceGroup> kinds;
  /// Between two ranks, and by sender and receiver where it is another: the slowest between devices of the
  /// same position.
  Link link;
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;

  /// \param width  devices of a rank.
  PipelineDeviceGroups(const Machine &machine, uint32_t ranks, uint32_t width, uint32_t tensorRanks);
  /// What stages, dealt out to the ranks in turn, run on. A stage receives over the link from the stage
  /// before it, as if all that it uses came from there.
  std::vector<StageDevice> stageDevices(uint32_t stages) const;
  /// Where rank `from` sends rank `to`.
  const Link &linkBetween(uint32_t from, uint32_t to) const;
  std::vector<std::optional<int64_t>> memoryOfRanks() const;
};

/// A rank that takes more bytes than its device has.
struct MemoryShortage {
  uint32_t rank;
  int64_t bytes, room;
  std::string describe() const;
};

/// The rank that takes most among those whose devices have too little; nothing where all have enough.
/// \param budgets  by rank; nothing for what is not limited.
std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<int64_t> bytes,
                                         llvm::ArrayRef<std::optional<int64_t>> budgets);

/// Links of a machine's first `count` devices that are not as the others, between devices of the same
/// position in groups of `width`.
std::map<std::pair<uint32_t, uint32_t>, Link> linkOverridesAmong(const Machine &machine, uint32_t count,
                                                                 uint32_t width);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H
