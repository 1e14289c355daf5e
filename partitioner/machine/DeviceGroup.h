//===- DeviceGroup.h - Devices of one pipeline rank -------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H
#define CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H

#include "partitioner/machine/Machine.h"
#include "partitioner/machine/StageDevice.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// Devices that run the same operations at the same time, each on its shard of the tensors or of the batch.
/// An operation takes as long as on the slowest device.
struct DeviceGroup {
  /// The devices that differ in speed, one of each.
  std::vector<DeviceSpec> devices;
  /// Costs of the slowest tensor-parallel group.
  CollectiveCosts collectives;

  /// The `count` devices of the machine from `first` on, in tensor-parallel groups of `tensorParallelSize`
  /// consecutive devices. Devices beyond the machine's last one are copies of it.
  static DeviceGroup of(const Machine &machine, uint32_t first, uint32_t count, uint32_t tensorParallelSize);
  /// Dispatch overhead: seconds spent on every operator besides its work.
  double dispatchSeconds() const;
  bool operator==(const DeviceGroup &other) const;
};

/// Costs of the slowest data-parallel group among the `devicesPerGroup` devices from `first` on. These
/// devices form tensor-parallel groups of `tensorParallelSize`; the devices of the same position in these
/// groups hold the same weights and are a data-parallel group.
CollectiveCosts dataParallelCollectivesOf(const Machine &machine, uint32_t first, uint32_t devicesPerGroup,
                                          uint32_t tensorParallelSize);

/// The device groups of pipeline ranks: pipeline rank r has the r-th `devicesPerGroup` devices of the
/// machine.
struct PipelineDeviceGroups {
  struct Rank {
    /// Index into `kinds`.
    uint32_t kind;
    /// Memory of the smallest device of the pipeline rank; nothing if none is limited.
    std::optional<int64_t> memoryBytes;
  };
  std::vector<Rank> ranks;
  /// The device groups that price operations differently, one of each.
  std::vector<DeviceGroup> kinds;
  /// `link`: between two pipeline ranks. `linkOverrides`: by sender and receiver, links that differ from it.
  /// Each is the slowest link between devices of the same position.
  Link link;
  std::map<std::pair<uint32_t, uint32_t>, Link> linkOverrides;

  /// \param devicesPerGroup  number of devices of a pipeline rank.
  PipelineDeviceGroups(const Machine &machine, uint32_t ranks, uint32_t devicesPerGroup,
                       uint32_t tensorParallelSize);
  /// By stage: its device. Stage s is on pipeline rank s mod their number, and receives over the link from
  /// the stage before it, as if that stage sent all its inputs.
  std::vector<StageDevice> stageDevices(uint32_t stages) const;
  /// The link over which pipeline rank `from` sends to pipeline rank `to`.
  const Link &linkBetween(uint32_t from, uint32_t to) const;
  std::vector<std::optional<int64_t>> memoryOfRanks() const;
};

/// A pipeline rank, or a rank of a plan, that needs more bytes than its device has.
struct MemoryShortage {
  /// Numbered as the `bytes` given to shortageOf.
  uint32_t rank;
  int64_t bytes, budget;
  std::string describe() const;
};

/// The pipeline rank, or rank of a plan, that needs most bytes among those that exceed their budgets; nothing
/// if none does.
/// \param budgets  nothing for one that is not limited.
std::optional<MemoryShortage> shortageOf(llvm::ArrayRef<int64_t> bytes,
                                         llvm::ArrayRef<std::optional<int64_t>> budgets);

/// By sender and receiver device: links among the machine's first `count` devices, between devices of the
/// same position in groups of `devicesPerGroup`, that differ from the machine's link.
std::map<std::pair<uint32_t, uint32_t>, Link> linkOverridesAmong(const Machine &machine, uint32_t count,
                                                                 uint32_t devicesPerGroup);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_DEVICEGROUP_H
