//===- PipelineCacheContents.h - What PipelineCache holds -------*- C++ -*-===//
//
// PipelineCache itself is declared in PipelineSearch.h.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINECACHECONTENTS_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINECACHECONTENTS_H

#include "partitioner/cost/ModelGraph.h"
#include "partitioner/search/PipelineSearch.h"
#include <list>
#include <map>
#include <tuple>

namespace cleave {

/// Prices of operations and values at one micro-batch size.
struct OperationPrices {
  OperationPrices(const ExampleShapes &shapes, const DeviceGroup &group) : shapes(shapes), group(group) {}
  double secondsOf(mlir::Operation *op);

  const ExampleShapes &shapes;
  const DeviceGroup &group;
  std::optional<TrainingCosts> training;
  /// Cached seconds: of forward passes for inference, of forward and backward passes for training.
  llvm::DenseMap<mlir::Operation *, double> seconds;
};

/// The fields of a configuration that differ among searches of one function: all but tensorParallelSize,
/// which the function fixes, and training.sequenceParallel, which is the same in all of them.
using ConfigurationKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, int, int>;
ConfigurationKey keyOf(const Configuration &configuration);

/// The simulated result of a cut.
struct CutOutcome {
  double seconds = 0;
  /// By pipeline rank: peak bytes, and the part of them that the stages' own peaks do not include: values
  /// that wait to be sent or used.
  std::vector<int64_t> peakBytes = {}, waitingBytes = {};
  std::string failure = {};
};

struct PipelineCache::Contents {
  explicit Contents(mlir::func::FuncOp function) : wholeBatch(function) {}
  /// The groups of `kinds` that equal these.
  std::vector<const DeviceGroup *> kindsOf(llvm::ArrayRef<DeviceGroup> groups);

  /// Shapes of the whole batch.
  ExampleShapes wholeBatch;
  /// All device groups, each once. Everything that prices depend on is in these, so prices hold for all
  /// requests.
  std::list<DeviceGroup> kinds;
  /// By the device groups of a pipeline.
  std::map<std::vector<const DeviceGroup *>, ModelGraphs> graphs;
  /// By the number of micro-batches of all data-parallel ranks together: the shapes of one.
  std::map<uint32_t, ExampleShapes> microbatchShapes;
  /// Of the function's calls.
  BackwardPassCache backwards;
  /// By that number, whether the function is trained, what is recomputed, and device group.
  std::map<std::tuple<uint32_t, bool, std::optional<RecomputeKind>, const DeviceGroup *>, OperationPrices>
      prices;
  std::map<ConfigurationKey, double> secondsLowerBound;
  /// By graph: cuts at the graph's own prices.
  std::map<const ModelGraph *, CutCache> cuts;
  /// By configuration: cuts at its prices.
  std::map<ConfigurationKey, CutCache> pricedCuts;
  std::map<std::pair<ConfigurationKey, const StageCut *>, CutOutcome> outcomes;
  /// By the numbers of micro-batches and data-parallel ranks.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<const CutMemory>> memories;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINECACHECONTENTS_H
