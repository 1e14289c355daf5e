//===- PlanMaker.h - The passes over one model ------------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H
#define CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H

#include "codegen/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/graph/LimitRange.h"
#include "partitioner/search/PipelineSearch.h"
#include "tools/driver/base/Mesh.h"
#include "tools/driver/base/ModelSource.h"
#include <map>
#include <utility>

namespace cleave {

/// Makes plans of a model, for one mesh or for several, and for one limit of memory or for several; the model
/// stays as it is. What was made for one is kept for all others for which it would be the same.
class PlanMaker {
public:
  /// All must outlive it.
  PlanMaker(const CompileOptions &options, const ModelSource &source, mlir::MLIRContext &context)
      : options(options), source(source), context(context) {}

  /// A plan without shard files: with the sharding that weighs memory, else with the one that takes least,
  /// else with the cut of which devices hold least. Fails where the passes refuse the model, or where devices
  /// have too little memory.
  llvm::Expected<std::unique_ptr<plan::Plan>> make(PipelineShape shape);

  /// The same; null where devices have too little memory.
  /// \param isTight  they are known to have too little for the fastest cut along program order, so that it is
  /// looked at what
  ///                 cuts hold before a plan is made of them. `shape` then says how many micro-batches there
  ///                 are.
  llvm::Expected<std::unique_ptr<plan::Plan>> makeWithin(PipelineShape shape, bool isTight);

  /// The last plan has another cut than the one that would be fastest.
  bool wasRecut() const { return isRecut; }

  /// The memory of the smallest device with which the shape is known to have a plan, and with hardly less is
  /// not (MemoryConstrainedCutter::leastBudget), beside what that device has; nothing where that cannot be told.
  std::optional<MemoryShortage> leastMemory(const PipelineShape &shape);
  /// With so many bytes a device it is certain to have one: what devices of the plan hold that
  /// `leastMemory` knows of, values that wait for other stages included.
  int64_t leastHeld(const PipelineShape &shape);
  /// With less, it has none; as far as that can be told without a cut.
  int64_t leastPeak(const PipelineShape &shape);

  /// The program of all tensor ranks, not yet cut into stages. Lives as long as this.
  llvm::Expected<mlir::func::FuncOp> shard(const PipelineShape &shape);

  /// What searches have found of such a program.
  PipelineCache &pipelinesOf(mlir::func::FuncOp function) { return pipelines[function]; }

  /// The passes accepted the model at least once since this was last called; what failed later is no matter
  /// of how it was split.
  bool takeHasMade() { return std::exchange(hasMade, false); }

private:
  /// A program as the pass that cuts it sees it.
  struct Uncut {
    const ModelGraph &model;
    CutCache &cuts;
    CutRequest request;
    const CutMemory *memory = nullptr;
    /// By pipeline rank: of the device of its tensor ranks that has least, and of those that hold most
    /// (largestBudgets).
    MemoryBudgets budgets, mostRooms;
  };
  /// What passes before the cut have made, with a limit of memory or without, and with which limits it is
  /// that.
  struct Sharded {
    /// Null where they had made the same before.
    mlir::OwningOpRef<mlir::ModuleOp> owned;
    mlir::ModuleOp module;
    bool isLimited;
    LimitRange limits;
  };
  llvm::Expected<Machine> machineOf(uint32_t devices) const;
  llvm::Expected<Uncut> uncut(const PipelineShape &shape, uint32_t microbatches);
  llvm::Expected<Uncut> smallest(PipelineShape shape);
  static bool fits(const Uncut &program, const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> runPasses(const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> makeSmallest(PipelineShape shape,
                                                           const MemoryConstrainedCutter::Least &least);
  llvm::Expected<std::unique_ptr<plan::Plan>> fitCut(const PipelineShape &shape, bool isTight);
  llvm::Expected<std::unique_ptr<plan::Plan>> recut(const PipelineShape &shape, uint32_t microbatches,
                                                    bool triesFastest);
  std::optional<MemoryConstrainedCutter::Least> leastCut(const PipelineShape &shape);
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
  bool hasMade = false, isRecut = false;
  /// Of the last plan whose fastest cut had no room.
  uint32_t microbatchesMade = 1;
  /// By what they were given, and the passes, limits left out.
  std::map<std::pair<mlir::Operation *, std::string>, std::vector<Sharded>> sharded;
  struct Emitted {
    std::unique_ptr<plan::Plan> plan;
    LimitRange limits;
  };
  /// By the program, and the passes that cut it, limits left out.
  std::map<std::pair<mlir::Operation *, std::string>, std::vector<Emitted>> emitted;
  std::map<mlir::Operation *, PipelineCache> pipelines;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_SEARCH_PLANMAKER_H
