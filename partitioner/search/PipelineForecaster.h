//===- PipelineForecaster.h - What one pipeline comes to --------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H

#include "partitioner/search/PipelineCache.h"
#include "partitioner/sharding/BatchAnalysis.h"

namespace cleave {

/// Cuts configurations of one function, and follows the cuts.
class PipelineForecaster {
public:
  /// All must outlive it.
  PipelineForecaster(mlir::func::FuncOp function, const PipelineSearchRequest &request);
  llvm::Expected<PipelineForecast> forecast(const Estimate &estimate);

protected:
  llvm::Error refusal(const Configuration &configuration) const;
  const PipelineDeviceGroups &deviceGroupsOf(const Configuration &configuration);
  const ModelGraph &graphOf(const Configuration &configuration);
  const CutMemory *memoryOf(const Configuration &configuration);
  StageGraph price(const ModelGraph &model, const Configuration &configuration);
  std::vector<StageDevice> stagesOf(const Configuration &configuration);
  llvm::Expected<CutRequest> requestFor(const ModelGraph &model, const Configuration &configuration,
                                        const SearchLimits &limits);
  double leastSeconds(const StageGraph &graph, const Configuration &configuration) const;
  /// Of stages and of ranks, on one pipeline.
  struct TrainingOfCut {
    std::vector<TrainingStageCost> stages, ranks;
  };
  llvm::Expected<PipelineForecast> follow(const ModelGraph &model, const StageGraph &graph,
                                          llvm::ArrayRef<uint32_t> stageOf,
                                          const Configuration &configuration);

  mlir::func::FuncOp function;
  const PipelineSearchRequest &request;
  PipelineCache own;
  PipelineCache &pipelines;
  PipelineCache::Facts &facts;
  std::optional<BatchObstacle> obstacle;
  /// Of the cut that is being looked at, by the number of micro-batches of all pipelines and by what is
  /// recomputed.
  std::map<std::pair<uint32_t, Recompute>, TrainingOfCut> ofCut;

private:
  const ExampleShapes &shapesOf(const Configuration &configuration);
  const std::vector<const DeviceGroup *> &kindsOf(const Configuration &configuration);
  OperationPrices &pricesOf(const Configuration &configuration, uint32_t kind);
  const TrainingOfCut &trainingOf(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                  const Configuration &configuration);
  std::vector<DataGroup> groupsOf(const Configuration &configuration) const;

  /// By ranks of a pipeline and devices of each; what their kinds are among those of `facts`.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<PipelineDeviceGroups, std::vector<const DeviceGroup *>>>
      groups;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINEFORECASTER_H
