//===- PipelineCache.cpp - State of pipeline searches ---------------------===//
#include "mlir/IR/Diagnostics.h"
#include "partitioner/memory/CutMemoryPredictor.h"
#include "partitioner/search/PipelineCacheContents.h"

using namespace mlir;

namespace cleave {

double OperationPrices::secondsOf(Operation *op) {
  auto [known, isNew] = seconds.try_emplace(op);
  if (isNew)
    known->second = training ? training->seconds(op) : operationSeconds(op, shapes, group);
  return known->second;
}

ConfigurationKey keyOf(const Configuration &configuration) {
  return {configuration.pipelineParallelSize,
          configuration.dataParallelSize,
          configuration.stagesPerRank,
          configuration.microbatches,
          configuration.zeroStage,
          configuration.schedule ? int(*configuration.schedule) : -1,
          int(configuration.training.recompute)};
}

PipelineCache::PipelineCache() = default;
PipelineCache::~PipelineCache() = default;

PipelineCache::Contents &PipelineCache::contentsOf(func::FuncOp function) {
  if (!contents)
    contents = std::make_unique<Contents>(function);
  return *contents;
}

std::vector<const DeviceGroup *> PipelineCache::Contents::kindsOf(ArrayRef<DeviceGroup> groups) {
  std::vector<const DeviceGroup *> own;
  for (const DeviceGroup &group : groups) {
    auto kind = llvm::find(kinds, group);
    own.push_back(kind == kinds.end() ? &kinds.emplace_back(group) : &*kind);
  }
  return own;
}

PipelineCache::Graph PipelineCache::graphOf(func::FuncOp function, ArrayRef<DeviceGroup> kinds,
                                            uint32_t stages) {
  Contents &known = contentsOf(function);
  ModelGraphs &graphs = known.graphs.try_emplace(known.kindsOf(kinds), function, kinds).first->second;
  const ModelGraph &model = graphs.of(stages);
  return {model, known.cuts[&model]};
}

const CutMemory *PipelineCache::memoryOf(func::FuncOp function, StringRef batch, uint32_t microbatches,
                                         const Machine &machine, uint32_t dataParallelSize) {
  auto [known, isNew] = contentsOf(function).memories.try_emplace({microbatches, dataParallelSize});
  if (isNew) {
    // Errors for too few samples are reported by the passes.
    ScopedDiagnosticHandler ignored(function.getContext(), [](Diagnostic &) { return success(); });
    known->second = CutMemoryPredictor::make(function, batch, microbatches, machine, dataParallelSize);
  }
  return known->second.get();
}

} // namespace cleave
