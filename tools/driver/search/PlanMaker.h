//===- PlanMaker.h - Makes plans of one model -------------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H

#include "codegen/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/graph/LimitRange.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/Mesh.h"
#include "tools/driver/base/ModelSource.h"
#include <map>
#include <utility>

namespace cleave {

/// Makes plans of a model, for several meshes and memory limits; the model is not changed. Intermediate
/// results are reused wherever they would be the same.
class PlanMaker {
public:
  /// All arguments must outlive the PlanMaker.
  PlanMaker(const CompileOptions &options, const ModelSource &source, mlir::MLIRContext &context)
      : options(options), source(source), context(context) {}

  /// Makes a plan without shard files. Tries the sharding that respects memory, then the fastest sharding,
  /// then the cut with the least memory. Fails if the passes reject the model, or if devices have too little
  /// memory.
  llvm::Expected<std::unique_ptr<plan::Plan>> make(PipelineShape shape);

  /// As make, but returns null if devices have too little memory.
  /// \param isTight  devices are known to have too little memory for the fastest cut along program order, so
  ///     memory of cuts is computed before plans are made of them. `shape` must then give the number of
  ///     micro-batches.
  llvm::Expected<std::unique_ptr<plan::Plan>> makeWithin(PipelineShape shape, bool isTight);

  /// True if the last plan was cut again, since the fastest cut lacked memory.
  bool wasRecut() const { return isRecut; }

  /// The smallest memory of the smallest device for which the configuration has a plan, to within a small
  /// tolerance (MemoryConstrainedCutter::minBudget), and the memory that the device has. Nothing if that
  /// cannot be computed.
  std::optional<MemoryShortage> leastMemory(const PipelineShape &shape);
  /// An amount of memory per device that suffices: the largest peak of the plan found by `leastMemory`,
  /// including values that wait for other stages.
  int64_t sufficientMemory(const PipelineShape &shape);
  /// Bytes per device below which no plan exists, as far as that can be told without a cut.
  int64_t necessaryMemory(const PipelineShape &shape);

  /// The program of all tensor-parallel ranks, before it is cut into stages: all signatures as one function
  /// (MergedSignatures). Lives as long as the PlanMaker.
  llvm::Expected<mlir::func::FuncOp> shard(const PipelineShape &shape);
  /// The functions of the signatures that such a program joins.
  llvm::ArrayRef<mlir::func::FuncOp> signatureFunctions(mlir::func::FuncOp function) {
    return signatures[function];
  }

  /// Cached search results for such a program.
  PipelineCache &pipelineCacheOf(mlir::func::FuncOp function) { return pipelines[function]; }

  /// True if the passes accepted the model since the last call; then later failures are not caused by its
  /// sharding.
  bool takeAccepted() { return std::exchange(isAccepted, false); }

private:
  /// What the cutting pass solves for a program.
  struct CutProblem {
    const ModelGraph &model;
    CutCache &cuts;
    CutRequest request;
    const CutMemory *memory = nullptr;
    /// By pipeline rank: memory of its smallest device.
    MemoryBudgets budgets;
    /// By pipeline rank: upper bound of the memory that may be used (largestBudgets in
    /// partitioner/memory/CutMemory.h); a cut that exceeds it fits nowhere.
    MemoryBudgets upperBudgets;
  };
  /// Result of the passes before the cut, with or without a memory limit, and the range of limits for which
  /// it holds.
  struct Sharded {
    /// Null if an earlier result was the same.
    mlir::OwningOpRef<mlir::ModuleOp> owned;
    mlir::ModuleOp module;
    bool isLimited;
    LimitRange limits;
  };
  llvm::Expected<Machine> machineOf(uint32_t devices) const;
  llvm::Expected<CutProblem> cutProblem(const PipelineShape &shape, uint32_t microbatches);
  llvm::Expected<CutProblem> smallest(PipelineShape shape);
  static bool fits(const CutProblem &program, const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> runPasses(const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> makeSmallest(PipelineShape shape,
                                                           const MemoryConstrainedCutter::MinBudget &least);
  llvm::Expected<std::unique_ptr<plan::Plan>> fitCut(const PipelineShape &shape, bool isTight);
  llvm::Expected<std::unique_ptr<plan::Plan>> recut(const PipelineShape &shape, uint32_t microbatches,
                                                    bool triesFastest);
  std::optional<MemoryConstrainedCutter::MinBudget> leastCut(const PipelineShape &shape);
  llvm::Error tooLittleMemory(const PipelineShape &shape, const std::optional<MemoryShortage> &least) const;
  llvm::Expected<Sharded> runStep(mlir::ModuleOp module, const std::string &passes, bool isLimited,
                                  unsigned done, llvm::ArrayRef<Sharded> before);
  llvm::Expected<mlir::ModuleOp> runSharding(const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> cutAndEmit(mlir::ModuleOp module, const PipelineShape &shape);
  llvm::Error run(mlir::ModuleOp module, const std::string &passes, unsigned done);
  llvm::Error checkCapturePoints(const plan::Plan &plan) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  bool isAccepted = false, isRecut = false;
  /// Micro-batches of the last plan whose fastest cut lacked memory.
  uint32_t microbatchesMade = 1;
  /// By input module and passes, without their limits.
  std::map<std::pair<mlir::Operation *, std::string>, std::vector<Sharded>> sharded;
  struct Emitted {
    std::unique_ptr<plan::Plan> plan;
    LimitRange limits;
  };
  /// By program and cutting passes, without their limits.
  std::map<std::pair<mlir::Operation *, std::string>, std::vector<Emitted>> emitted;
  /// A copy of a sharded module without observes, for searches.
  struct Searched {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    MergedSignatures merged;
  };
  /// By sharded module.
  std::map<mlir::Operation *, Searched> mergedModules;
  /// By merged function.
  std::map<mlir::Operation *, llvm::ArrayRef<mlir::func::FuncOp>> signatures;
  std::map<mlir::Operation *, PipelineCache> pipelines;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H
