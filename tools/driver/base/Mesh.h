//===- Mesh.h - Devices and mesh from the options ---------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_MESH_H
#define CLEAVE_TOOLS_DRIVER_BASE_MESH_H

#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/CompileOptions.h"
#include <optional>

namespace cleave {

/// What --mesh leaves open.
struct MeshSearchSpace {
  uint32_t devices = 1;
  /// Those that are fixed.
  std::optional<uint32_t> ranks, tensorRanks, dataRanks = 1;
  /// Stages of a rank that are tried.
  std::vector<uint32_t> stagesOfRank;
  /// Of training.
  std::vector<TrainingKind> kinds = {};
  std::vector<TrainingOptions> training = {};
  std::vector<uint32_t> zero = {0};
};

struct PipelineShape {
  /// Pipeline ranks, and stages: as many, or twice as many where they are interleaved.
  uint32_t ranks = 1, stages = 1;
  /// Devices of each pipeline rank, between which tensors are split.
  uint32_t tensorRanks = 1;
  /// Pipelines side by side, each on a part of the batch.
  uint32_t dataRanks = 1;
  /// `PATTERN=STYLE`, how weights are to be split between them.
  std::vector<std::string> shard;
  /// Of each pipeline; 0: the number that is predicted to end first.
  uint32_t microbatches = 1;
  /// The dimension that micro-batches and pipelines split; empty where the batch is whole.
  std::string batch;
  /// Those that may be used, from the machine's first on, and how many it has; 0: as many as are used.
  uint32_t devices = 1, devicesOfMachine = 0;
  /// Of the machine's devices, in their order; nothing of one that is not limited.
  std::vector<std::optional<int64_t>> memoryOfDevices;
  /// Of each device, in place of these, where the user said so.
  std::optional<int64_t> memoryGiven;
  /// Bytes of weights that each stage may hold; none: as many as its device.
  std::vector<int64_t> weightLimits;
  /// Of the search for a faster cut than program order has; nothing: as many as usual.
  std::optional<uint64_t> cutSteps;
  /// Whether weights may stay whole on tensor ranks where there is room for them.
  bool weighsMemory = true;
  /// Ranks, stages, tensor ranks and micro-batches are still to be found.
  std::optional<MeshSearchSpace> search;

  /// The machine has more than may be used.
  bool leavesDevices() const { return devices < devicesOfMachine; }
  /// Devices of a pipeline rank, and of all.
  uint32_t width() const { return tensorRanks * dataRanks; }
  uint32_t rankCount() const { return ranks * width(); }
  /// By rank; nothing of one whose device is not limited.
  std::vector<std::optional<int64_t>> memoryOfRanks() const;
};

/// That `used` of the machine's devices are used, where --devices or --mesh leaves some.
std::vector<std::string> noteDevicesLeft(const CompileOptions &options, const PipelineShape &shape,
                                         uint32_t used);

/// Reconciles --devices, --mesh and --machine: of devices that are alike a mesh may take the first ones. Of
/// training a mesh is always searched for, if only among one.
llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_MESH_H
