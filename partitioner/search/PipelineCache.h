//===- PipelineCache.h - Contents of PipelineCache --------------*- C++ -*-===//
//
// The class is declared in PipelineSearch.h.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H
#define CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H

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

/// A configuration as a map key.
using ConfigurationKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, int, int>;
ConfigurationKey keyOf(const Configuration &configuration);

/// The simulated result of a cut.
struct CutOutcome {
  double seconds = 0;
  /// By pipeline rank: peak bytes, and the part of them that is values waiting for other passes.
  std::vector<int64_t> peakBytes = {}, waitingBytes = {};
  std::string failure = {};
};

struct PipelineCache::Contents {
  explicit Contents(mlir::func::FuncOp function) : whole(function) {}
  /// The groups of `kinds` that equal these.
  std::vector<const DeviceGroup *> kindsOf(llvm::ArrayRef<DeviceGroup> groups);

  ExampleShapes whole;
  /// All device groups, each once. Everything that prices depend on is in these, so prices hold for all
  /// requests.
  std::list<DeviceGroup> kinds;
  /// By the device groups of a pipeline.
  std::map<std::vector<const DeviceGroup *>, ModelGraphs> graphs;
  /// By the number of micro-batches of all data-parallel ranks together: the shapes of one.
  std::map<uint32_t, ExampleShapes> parts;
  /// By that number, recomputation (nothing for inference), and device group.
  std::map<std::tuple<uint32_t, std::optional<Recompute>, const DeviceGroup *>, OperationPrices> prices;
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

#endif // CLEAVE_PARTITIONER_SEARCH_PIPELINECACHE_H
