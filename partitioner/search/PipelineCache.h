//===- PipelineCache.h - What searches for pipelines keep ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H

#include "partitioner/cost/ModelGraph.h"
#include "partitioner/search/PipelineSearch.h"
#include <list>
#include <map>
#include <tuple>

namespace cleave {

/// What operations and values come to in micro-batches of one size.
struct OperationPrices {
  OperationPrices(const ExampleShapes &shapes, const DeviceGroup &group) : shapes(shapes), group(group) {}
  double secondsOf(mlir::Operation *op);

  const ExampleShapes &shapes;
  const DeviceGroup &group;
  std::optional<TrainingCosts> training;
  /// Those that were asked for: of forward passes, or of both.
  llvm::DenseMap<mlir::Operation *, double> seconds;
};

/// A configuration, as a key.
using ConfigurationKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, int, int>;
ConfigurationKey keyOf(const Configuration &configuration);

/// What was followed of a cut.
struct CutOutcome {
  double seconds = 0;
  /// By rank, and what of that is values which wait for other passes.
  std::vector<int64_t> peakBytes = {}, waitingBytes = {};
  std::string failure = {};
};

struct PipelineCache::Facts {
  explicit Facts(mlir::func::FuncOp function) : whole(function) {}
  /// Of `kinds`.
  std::vector<const DeviceGroup *> kindsOf(llvm::ArrayRef<DeviceGroup> groups);

  ExampleShapes whole;
  /// Of all groups, each once: what prices ask of the machine is the same in all requests.
  std::list<DeviceGroup> kinds;
  /// By the groups that a pipeline has.
  std::map<std::vector<const DeviceGroup *>, ModelGraphs> graphs;
  /// By the number of micro-batches of all pipelines.
  std::map<uint32_t, ExampleShapes> parts;
  /// By that, by how much is recomputed, none for inference, and by group.
  std::map<std::tuple<uint32_t, std::optional<Recompute>, const DeviceGroup *>, OperationPrices> prices;
  std::map<ConfigurationKey, double> leastSeconds;
  /// Of graphs, at their own prices.
  std::map<const ModelGraph *, CutCache> cuts;
  /// At a configuration's.
  std::map<ConfigurationKey, CutCache> pricedCuts;
  std::map<std::pair<ConfigurationKey, const StageCut *>, CutOutcome> outcomes;
  /// By the numbers of micro-batches and data ranks.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<const CutMemory>> memories;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H
