//===- PipelineSearch.h - Search for the best pipeline ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINESEARCH_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINESEARCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/cost/TrainingCosts.h"
#include "partitioner/cutting/MemoryConstrainedCutter.h"
#include "partitioner/machine/DeviceGroup.h"
#include "partitioner/simulation/DataParallelism.h"
#include "partitioner/simulation/Schedules.h"
#include "partitioner/simulation/Simulator.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave {

/// A parallel configuration: pipeline, tensor and data parallelism, schedule and recomputation.
struct Configuration {
  uint32_t pipelineParallelSize = 1, tensorParallelSize = 1;
  /// Number of pipeline replicas, each of which takes a part of the batch.
  uint32_t dataParallelSize = 1;
  uint32_t devices() const { return pipelineParallelSize * dataParallelSize * tensorParallelSize; }
  /// Virtual stages per pipeline rank; interleaved if there are several.
  uint32_t stagesPerRank = 1;
  uint32_t microbatches = 1;
  /// For training: the schedule, recomputation and sequence parallelism.
  std::optional<TrainingSchedule> schedule = std::nullopt;
  TrainingOptions training = {};
  /// ZeRO stage: what data-parallel ranks shard (DataParallelGroup).
  uint32_t zeroStage = 0;
  bool operator==(const Configuration &) const = default;
};

/// Full forecast of one configuration.
struct PipelineForecast {
  plan::Schedule schedule;
  PipelineCosts costs;
  SimulationResult simulation;
  /// By stage; empty for inference.
  std::vector<TrainingStageCost> training;
  /// By pipeline rank: bytes of weights, for training with gradients and optimizer state; and peak bytes in
  /// all.
  std::vector<int64_t> stateBytes, peakBytes;
  /// Seconds of a step. For training: the schedule, the rest of the gradient reduction that does not overlap
  /// with it, and the optimizer step. The latter two are those of the slowest rank, since the optimizer needs
  /// the norm of all gradients.
  double seconds = 0;
};

/// Estimate of one configuration.
struct Estimate {
  Configuration configuration;
  double seconds = 0;
  /// Bytes on the rank that holds most: weights and values alive at once, without workspace of operators.
  int64_t peakBytes = 0;
  /// Why the configuration cannot be used; empty if it can.
  std::string obstacle = {};
  /// True if `seconds` is only a lower bound: no cut was made since another configuration is faster.
  bool isLowerBound = false;
  /// The shortage that `obstacle` reports, if it is about memory.
  std::optional<MemoryShortage> shortage = std::nullopt;
  /// True if the fastest cut exceeds memory. Then `obstacle` says so, or the estimate is that of a slower
  /// cut.
  bool lacksMemory = false;
  /// If memory is the obstacle and a cut that was not found may still fit: lower bound of its seconds.
  /// Nothing if no cut can fit.
  std::optional<double> refitLowerBound = std::nullopt;
  /// The cut along program order that was estimated; owned by the request's `cache`; null without one.
  const StageCut *cut = nullptr;
  /// The function that was estimated, sharded for this configuration.
  mlir::func::FuncOp function = nullptr;

  bool isUsable() const { return obstacle.empty() && !isLowerBound; }
};

/// Obstacle of configurations that were left when the search was cancelled.
inline constexpr char kNotEvaluated[] = "not evaluated: interrupted";

/// Results of searches of one function, for other searches of it that differ only in memory limits and
/// `best`.
class PipelineCache {
public:
  PipelineCache();
  ~PipelineCache();
  /// The function as a graph for this number of stages on device groups of these kinds (buildModelGraph), and
  /// its cuts; both live as long as the cache.
  struct Graph {
    const ModelGraph &model;
    CutCache &cuts;
  };
  Graph graphOf(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds, uint32_t stages);
  /// Memory of pipeline ranks under the function's cuts (CutMemoryPredictor::make). Null if the function does
  /// not run on so few samples. Lives as long as the cache.
  const CutMemory *memoryOf(mlir::func::FuncOp function, llvm::StringRef batch, uint32_t microbatches,
                            const Machine &machine, uint32_t dataParallelSize);
  struct Contents;
  Contents &contentsOf(mlir::func::FuncOp function);

private:
  std::unique_ptr<Contents> contents;
};

struct PipelineSearchRequest {
  Machine machine;
  /// Pairs: pipeline ranks, and pipeline replicas.
  std::vector<std::pair<uint32_t, uint32_t>> pipelines;
  std::vector<uint32_t> stagesPerRank;
  /// Micro-batches per pipeline; 0 to try each divisor of its samples.
  uint32_t microbatches = 0;
  /// Training schedules and options; all pairs are tried, interleaving if a rank has several stages. Empty
  /// for inference.
  std::vector<TrainingSchedule> schedules;
  std::vector<TrainingOptions> training;
  /// ZeRO stages to try with several replicas, ascending.
  std::vector<uint32_t> zeroStages = {0};
  /// The dimension that micro-batches split; empty if there is none.
  std::string batch;
  /// The functions that a merged function holds (MergedSignatures), all of whose batches are split; may be
  /// empty for a single function.
  std::vector<mlir::func::FuncOp> signatures = {};
  /// Paths of modules that must begin a stage.
  std::vector<std::string> stageBefore;
  /// Seconds of the best known configuration, updated by the search. Configurations that cannot be faster are
  /// not cut. If null, all are cut.
  double *best = nullptr;
  /// Called with each estimate and the share of the search that is done; false cancels the search. May be
  /// empty.
  std::function<bool(const Estimate &estimate, double share)> onEstimate;
  /// Estimate every number of micro-batches. If false, a pipeline's further numbers may be left out once no
  /// cut was found that fits.
  bool triesAllMicrobatches = false;
  /// Cache of the function's results, to share them with other searches; may be null.
  PipelineCache *cache = nullptr;
};

/// Estimates all pipelines of the request for `function`, a program of all its tensor-parallel ranks. Cuts
/// come from StageCutter along program order only (`kProgramOrder`); the chosen one is cut again, exactly, by
/// forecastPipeline. The time is simulated with the runtime's own schedule, with operations priced at the
/// size of a micro-batch (operationSeconds).
std::vector<Estimate> searchPipelines(mlir::func::FuncOp function, const PipelineSearchRequest &request);

/// Full forecast of one estimate, with an exact cut; if the ranks cannot hold that cut, with the estimate's
/// cut.
llvm::Expected<PipelineForecast> forecastPipeline(const PipelineSearchRequest &request,
                                                  const Estimate &estimate);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINESEARCH_H
