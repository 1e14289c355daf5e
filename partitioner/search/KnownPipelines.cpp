//===- KnownPipelines.cpp - What searches for pipelines keep --------------===//
#include "partitioner/search/KnownPipelines.h"
#include "mlir/IR/Diagnostics.h"
#include "partitioner/memory/PlannedMemory.h"

using namespace mlir;

namespace cleave {

double OperationPrices::secondsOf(Operation *op) {
  auto [known, isNew] = seconds.try_emplace(op);
  if (isNew)
    known->second = training ? training->seconds(op) : operationSeconds(op, shapes, place);
  return known->second;
}

ConfigurationKey keyOf(const Configuration &configuration) {
  return {configuration.pipelineRanks,
          configuration.dataRanks,
          configuration.stagesOfRank,
          configuration.microbatches,
          configuration.zero,
          configuration.kind ? int(*configuration.kind) : -1,
          int(configuration.training.recompute)};
}

KnownPipelines::KnownPipelines() = default;
KnownPipelines::~KnownPipelines() = default;

KnownPipelines::Facts &KnownPipelines::factsOf(func::FuncOp function) {
  if (!facts)
    facts = std::make_unique<Facts>(function);
  return *facts;
}

std::vector<const Place *> KnownPipelines::Facts::kindsOf(ArrayRef<Place> places) {
  std::vector<const Place *> own;
  for (const Place &place : places) {
    auto kind = llvm::find(kinds, place);
    own.push_back(kind == kinds.end() ? &kinds.emplace_back(place) : &*kind);
  }
  return own;
}

KnownPipelines::Graph KnownPipelines::graphOf(func::FuncOp function, ArrayRef<Place> kinds, uint32_t stages) {
  Facts &known = factsOf(function);
  ModelGraphs &graphs = known.graphs.try_emplace(known.kindsOf(kinds), function, kinds).first->second;
  const ModelGraph &model = graphs.of(stages);
  return {model, known.cuts[&model]};
}

const CutMemory *KnownPipelines::memoryOf(func::FuncOp function, StringRef batch, uint32_t microbatches,
                                          const Machine &machine, uint32_t dataRanks) {
  auto [known, isNew] = factsOf(function).memories.try_emplace({microbatches, dataRanks});
  if (isNew) {
    // Where the function does not run on so few samples, the passes report it.
    ScopedDiagnosticHandler ignored(function.getContext(), [](Diagnostic &) { return success(); });
    known->second = PlannedMemory::make(function, batch, microbatches, machine, dataRanks);
  }
  return known->second.get();
}

} // namespace cleave
