//===- KnownPipelines.h - What searches for pipelines keep ------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SEARCH_KNOWNPIPELINES_H
#define CLEAVE_PARTITIONER_SEARCH_KNOWNPIPELINES_H

#include "partitioner/cost/ModelGraph.h"
#include "partitioner/search/PipelineSearch.h"
#include <list>
#include <map>
#include <tuple>

namespace cleave {

/// What operations and values come to in micro-batches of one size.
struct OperationPrices {
  OperationPrices(const TracedShapes &shapes, const Place &place) : shapes(shapes), place(place) {}
  double secondsOf(mlir::Operation *op);

  const TracedShapes &shapes;
  const Place &place;
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

struct KnownPipelines::Facts {
  explicit Facts(mlir::func::FuncOp function) : whole(function) {}
  /// Of `kinds`.
  std::vector<const Place *> kindsOf(llvm::ArrayRef<Place> places);

  TracedShapes whole;
  /// Of all places, each once: what prices ask of the machine is the same in all requests.
  std::list<Place> kinds;
  /// By the places that a pipeline has.
  std::map<std::vector<const Place *>, ModelGraphs> graphs;
  /// By the number of micro-batches of all pipelines.
  std::map<uint32_t, TracedShapes> parts;
  /// By that, by how much is recomputed, none for inference, and by place.
  std::map<std::tuple<uint32_t, std::optional<Recompute>, const Place *>, OperationPrices> prices;
  std::map<ConfigurationKey, double> leastSeconds;
  /// Of graphs, at their own prices.
  std::map<const ModelGraph *, KnownCuts> cuts;
  /// At a configuration's.
  std::map<ConfigurationKey, KnownCuts> pricedCuts;
  std::map<std::pair<ConfigurationKey, const StageCut *>, CutOutcome> outcomes;
  /// By the numbers of micro-batches and data ranks.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<const CutMemory>> memories;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SEARCH_KNOWNPIPELINES_H
