//===- PipelineForecaster.h - Forecast of one pipeline ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H

#include "partitioner/search/PipelineCacheContents.h"
#include "partitioner/sharding/BatchAnalysis.h"

namespace cleave {

/// Cuts one function for a configuration and simulates the cut.
class PipelineForecaster {
public:
  /// \param function, request  must outlive the object.
  PipelineForecaster(mlir::func::FuncOp function, const PipelineSearchRequest &request);
  llvm::Expected<PipelineForecast> forecast(const Estimate &estimate);

protected:
  llvm::Error findObstacle(const Configuration &configuration) const;
  const PipelineDeviceGroups &deviceGroupsOf(const Configuration &configuration);
  const ModelGraph &graphOf(const Configuration &configuration);
  const CutMemory *memoryOf(const Configuration &configuration);
  StageGraph price(const ModelGraph &model, const Configuration &configuration);
  std::vector<StageDevice> stagesOf(const Configuration &configuration);
  llvm::Expected<CutRequest> requestFor(const ModelGraph &model, const Configuration &configuration,
                                        const SearchLimits &limits);
  double secondsLowerBound(const StageGraph &graph, const Configuration &configuration) const;
  /// Costs before data-parallel ranks shard them. `stages`: of each stage. `pipelineRanks`: of all operations
  /// of a pipeline rank, as if its stages were one.
  struct CutTrainingCosts {
    std::vector<TrainingStageCost> stages, pipelineRanks;
  };
  llvm::Expected<PipelineForecast> simulateCut(const ModelGraph &model, const StageGraph &graph,
                                               llvm::ArrayRef<uint32_t> stageOf,
                                               const Configuration &configuration);

  mlir::func::FuncOp function;
  const PipelineSearchRequest &request;
  PipelineCache ownCache;
  PipelineCache &cache;
  PipelineCache::Contents &contents;
  std::optional<BatchObstacle> obstacle;
  /// Cache for trainingOf, by the number of micro-batches of all data-parallel ranks and by recomputation. It
  /// holds for one cut and is cleared before another one.
  std::map<std::pair<uint32_t, std::optional<RecomputeKind>>, CutTrainingCosts> trainingCosts;

private:
  const ExampleShapes &shapesOf(const Configuration &configuration);
  const std::vector<const DeviceGroup *> &kindsOf(const Configuration &configuration);
  OperationPrices &pricesOf(const Configuration &configuration, uint32_t kind);
  const CutTrainingCosts &trainingOf(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                     const Configuration &configuration);
  std::vector<DataParallelGroup> groupsOf(const Configuration &configuration) const;

  /// By pipeline ranks and devices of each rank: its device groups, and their kinds among those of
  /// `contents`.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<PipelineDeviceGroups, std::vector<const DeviceGroup *>>>
      groups;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H
