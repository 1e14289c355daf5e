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

/// Parts of the mesh that --mesh leaves to the search.
struct MeshSearchSpace {
  uint32_t devices = 1;
  /// Fixed values: pipeline, tensor-parallel and data-parallel ranks.
  std::optional<uint32_t> pipelineParallelSize, tensorParallelSize, dataParallelSize = 1;
  /// Stages per rank to try.
  std::vector<uint32_t> stagesPerRank;
  /// Training only.
  std::vector<TrainingSchedule> schedules = {};
  std::vector<TrainingOptions> training = {};
  std::vector<uint32_t> zeroStages = {0};
};

/// How a model is laid out over devices: mesh, sharding rules, micro-batches, memory limits; and what of it
/// is still to be searched for.
struct PipelineShape {
  /// Pipeline ranks, and stages: as many as ranks, or a multiple if they are interleaved.
  uint32_t pipelineParallelSize = 1, stages = 1;
  /// Tensor-parallel ranks of each pipeline rank.
  uint32_t tensorParallelSize = 1;
  /// Data-parallel ranks: parallel pipelines, each on a part of the batch.
  uint32_t dataParallelSize = 1;
  /// `PATTERN=STYLE`: how weights are split over tensor-parallel ranks.
  std::vector<std::string> shard;
  /// Micro-batches of each pipeline; 0: the number with the least predicted time.
  uint32_t microbatches = 1;
  /// Name of the batch dimension; empty if the batch is not split.
  std::string batch;
  /// Whether the model keeps states from call to call.
  bool hasStates = false;
  /// Number of devices that may be used: the first ones of the machine.
  uint32_t devices = 1;
  /// Number of devices of the machine; 0 if no machine is given.
  uint32_t devicesOfMachine = 0;
  /// By device of the machine: bytes; nothing without a limit.
  std::vector<std::optional<int64_t>> memoryOfDevices;
  /// Bytes of each device, given by the user; replaces the values above.
  std::optional<int64_t> memoryGiven;
  /// By stage: bytes of weights that it may hold; empty: as many as its device.
  std::vector<int64_t> weightLimits;
  /// Work budget (SearchLimits::work) of the search for a faster cut than along program order; nothing: the
  /// default.
  std::optional<uint64_t> cutWork;
  /// Whether weights may be replicated on tensor-parallel ranks if memory allows.
  bool mayReplicateWeights = true;
  /// Set if ranks, stages, tensor-parallel ranks and micro-batches are still to be searched for.
  std::optional<MeshSearchSpace> search;

  /// True if the machine has more devices than may be used.
  bool leavesDevices() const { return devices < devicesOfMachine; }
  /// Devices of a pipeline rank, and of all pipeline ranks.
  uint32_t devicesPerPipelineRank() const { return tensorParallelSize * dataParallelSize; }
  uint32_t rankCount() const { return pipelineParallelSize * devicesPerPipelineRank(); }
  /// By rank: bytes; nothing without a limit.
  std::vector<std::optional<int64_t>> memoryOfRanks() const;
};

/// Notes that only `used` of the machine's devices are used, if --devices or --mesh leaves some unused.
std::vector<std::string> noteDevicesLeft(const CompileOptions &options, const PipelineShape &shape,
                                         uint32_t used);

/// Reconciles --devices, --mesh and --machine. If all devices are identical, the mesh may use only the first
/// ones. For training the search always runs, even if it has one mesh to choose from.
llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_MESH_H
