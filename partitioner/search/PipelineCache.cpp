//===- PipelineCache.cpp - State of pipeline searches ---------------------===//
#include "partitioner/search/PipelineCache.h"
#include "mlir/IR/Diagnostics.h"
#include "partitioner/memory/PlannedMemory.h"

using namespace mlir;

namespace cleave {

double OperationPrices::secondsOf(Operation *op) {
  auto [known, isNew] = seconds.try_emplace(op);
  if (isNew)
    known->second = training ? training->seconds(op) : operationSeconds(op, shapes, group);
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

PipelineCache::PipelineCache() = default;
PipelineCache::~PipelineCache() = default;

PipelineCache::Facts &PipelineCache::factsOf(func::FuncOp function) {
  if (!facts)
    facts = std::make_unique<Facts>(function);
  return *facts;
}

std::vector<const DeviceGroup *> PipelineCache::Facts::kindsOf(ArrayRef<DeviceGroup> groups) {
  std::vector<const DeviceGroup *> own;
  for (const DeviceGroup &group : groups) {
    auto kind = llvm::find(kinds, group);
    own.push_back(kind == kinds.end() ? &kinds.emplace_back(group) : &*kind);
  }
  return own;
}

PipelineCache::Graph PipelineCache::graphOf(func::FuncOp function, ArrayRef<DeviceGroup> kinds,
                                            uint32_t stages) {
  Facts &known = factsOf(function);
  ModelGraphs &graphs = known.graphs.try_emplace(known.kindsOf(kinds), function, kinds).first->second;
  const ModelGraph &model = graphs.of(stages);
  return {model, known.cuts[&model]};
}

const CutMemory *PipelineCache::memoryOf(func::FuncOp function, StringRef batch, uint32_t microbatches,
                                         const Machine &machine, uint32_t dataRanks) {
  auto [known, isNew] = factsOf(function).memories.try_emplace({microbatches, dataRanks});
  if (isNew) {
    // Errors for too few samples are reported by the passes.
    ScopedDiagnosticHandler ignored(function.getContext(), [](Diagnostic &) { return success(); });
    known->second = PlannedMemory::make(function, batch, microbatches, machine, dataRanks);
  }
  return known->second.get();
}

} // namespace cleave
