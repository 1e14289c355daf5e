//===- PipelineSearch.h - All pipelines of one function ---------*- C++ -*-===//
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

/// One way to use devices for a step.
struct Configuration {
  uint32_t pipelineRanks = 1, tensorRanks = 1;
  /// Pipelines that each train on a part of the batch.
  uint32_t dataRanks = 1;
  uint32_t devices() const { return pipelineRanks * dataRanks * tensorRanks; }
  /// Stages of each pipeline rank; several are interleaved.
  uint32_t stagesOfRank = 1;
  uint32_t microbatches = 1;
  /// Of training: the schedule, and what is recomputed.
  std::optional<TrainingKind> kind = std::nullopt;
  TrainingOptions training = {};
  /// What pipelines side by side hold in parts (DataGroup).
  uint32_t zero = 0;
  bool operator==(const Configuration &) const = default;
};

/// What one configuration comes to, in full.
struct PipelineForecast {
  plan::Schedule schedule;
  PipelineCosts costs;
  Forecast forecast;
  /// One a stage; empty for inference.
  std::vector<TrainingStageCost> training;
  /// By pipeline rank: weights, of training with gradients and the optimizer's, and the most bytes in all.
  std::vector<int64_t> stateBytes, peakBytes;
  /// Of a step: the schedule and, of training, what of the sums of gradients over pipelines is still under
  /// way then, and the update of weights, each the slowest rank's: the update takes the norm of all
  /// gradients.
  double seconds = 0;
};

/// What a configuration is expected to come to.
struct Estimate {
  Configuration configuration;
  double seconds = 0;
  /// Of the rank that holds most: weights, and values that live at once, without the workspace of operators.
  int64_t peakBytes = 0;
  /// Why it cannot be used; empty where it can.
  std::string obstacle = {};
  /// It takes those seconds or more, and was not cut, as another one takes less.
  bool isBound = false;
  /// Why `obstacle`, where that is memory.
  std::optional<MemoryShortage> shortage = std::nullopt;
  /// The fastest cut lacks memory: that is the obstacle, or it is of a slower one.
  bool lacksMemory = false;
  /// Of an obstacle: some cut may have room all the same, which then takes these seconds or more.
  std::optional<double> mayTake = std::nullopt;
  /// Along program order, of which it is; as long as what the request has `known`, else null.
  const StageCut *cut = nullptr;
  /// Of which it is, sharded for that.
  mlir::func::FuncOp function = nullptr;

  bool isUsable() const { return obstacle.empty() && !isBound; }
};

/// The obstacle of what is left where the search has been ended.
inline constexpr char kNotWeighed[] = "not weighed: interrupted";

/// What searches of one function have found, for those that ask the same of it, but for memory and `best`.
class PipelineCache {
public:
  PipelineCache();
  ~PipelineCache();
  /// The function as a graph for so many stages on groups of these kinds (buildModelGraph), and cuts of that;
  /// both live as long as this.
  struct Graph {
    const ModelGraph &model;
    CutCache &cuts;
  };
  Graph graphOf(mlir::func::FuncOp function, llvm::ArrayRef<DeviceGroup> kinds, uint32_t stages);
  /// What ranks hold of the function's cuts (PlannedMemory::make). Null where the function does not run on so
  /// few samples. Lives as long as this.
  const CutMemory *memoryOf(mlir::func::FuncOp function, llvm::StringRef batch, uint32_t microbatches,
                            const Machine &machine, uint32_t dataRanks);
  struct Facts;
  Facts &factsOf(mlir::func::FuncOp function);

private:
  std::unique_ptr<Facts> facts;
};

struct PipelineSearchRequest {
  Machine machine;
  /// How many ranks a pipeline has, and how many pipelines there are.
  std::vector<std::pair<uint32_t, uint32_t>> pipelines;
  std::vector<uint32_t> stagesOfRank;
  /// Of each pipeline; 0: each number that divides its samples.
  uint32_t microbatches = 0;
  /// Schedules of training and what is recomputed: each pair is tried, interleaving where a rank has several
  /// stages; empty: inference.
  std::vector<TrainingKind> kinds;
  std::vector<TrainingOptions> training;
  /// Stages of ZeRO, ascending, where there are several pipelines.
  std::vector<uint32_t> zero = {0};
  /// The dimension that micro-batches split; empty: none.
  std::string batch;
  /// Paths of modules that begin a stage.
  std::vector<std::string> stageBefore;
  /// Seconds of the best that is known, kept up to date: what cannot be faster is not cut. Null: all is.
  double *best = nullptr;
  /// Told of each estimate, and the share of all that is done with it; false ends the search. May be empty.
  std::function<bool(const Estimate &estimate, double share)> goesOn;
  /// All numbers of micro-batches are listed, also where no cut is possible.
  bool listsAll = false;
  /// Of the function, where others are to use what this search finds; may be null.
  PipelineCache *known = nullptr;
};

/// What every pipeline of the request takes that `function`, a program of all its tensor ranks, can be cut
/// into. The cut is StageCutter's, the time that of the simulator over the runtime's own schedule, with
/// operations priced as everywhere (operationSeconds) at the size of a micro-batch. Cuts are those of program
/// order (`kProgramOrder`): what is chosen is cut anew, exactly.
std::vector<Estimate> searchPipelines(mlir::func::FuncOp function, const PipelineSearchRequest &request);

/// One of them in full, cut exactly; where ranks have no room for what they hold then, with the cut of the
/// estimate.
llvm::Expected<PipelineForecast> forecastPipeline(const PipelineSearchRequest &request,
                                                  const Estimate &estimate);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINESEARCH_H
