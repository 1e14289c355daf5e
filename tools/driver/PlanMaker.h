//===- PlanMaker.h - The passes over one model ------------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_PLANMAKER_H
#define CLEAVE_TOOLS_DRIVER_PLANMAKER_H

#include "codegen/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "partitioner/LimitRange.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/ModelSource.h"
#include <map>
#include <utility>

namespace cleave {

/// Makes plans of a model, for one mesh or for several, and for one limit of memory or for several; the model stays as it is.
/// What was made for one is kept for all others for which it would be the same.
class PlanMaker {
public:
  /// All must outlive it.
  PlanMaker(const CompileOptions &options, const ModelSource &source, mlir::MLIRContext &context)
      : options(options), source(source), context(context) {}

  /// A plan without shard files: with the sharding that weighs memory, else with the one that takes least. Fails where the
  /// passes refuse the model, or where devices have too little memory.
  llvm::Expected<std::unique_ptr<plan::Plan>> make(PipelineShape shape);

  /// The program of all tensor ranks, not yet cut into stages. Lives as long as this.
  llvm::Expected<mlir::func::FuncOp> shard(const PipelineShape &shape);

  /// What searches have found of such a program.
  KnownPipelines &pipelinesOf(mlir::func::FuncOp function) { return pipelines[function]; }

  /// The passes accepted the model at least once since this was last called; what failed later is no matter of how it was
  /// split.
  bool takeHasMade() { return std::exchange(hasMade, false); }

private:
  /// A plan, and an error where the devices have too little memory for it.
  struct Made {
    std::unique_ptr<plan::Plan> plan;
    llvm::Error tooLarge;
  };
  llvm::Expected<std::unique_ptr<plan::Plan>> runPasses(const PipelineShape &shape);
  /// With a cut by what stages were predicted to hold beside weights, where the first one is too much for a device.
  Made fitCut(const PipelineShape &shape);
  /// Cuts that need less and less, until all fits or nothing is gained: the need that an error names is one that will do.
  /// The devices that have less than they need are given less and less, the others what they have.
  /// \param best   a plan that may need too much.
  /// \param shape  what it was made for.
  std::unique_ptr<plan::Plan> needLess(std::unique_ptr<plan::Plan> best, PipelineShape shape);
  llvm::Expected<mlir::ModuleOp> runSharding(const PipelineShape &shape);
  llvm::Expected<std::unique_ptr<plan::Plan>> cutAndEmit(mlir::ModuleOp module, const PipelineShape &shape);
  llvm::Error run(mlir::ModuleOp module, const std::string &passes, unsigned done);
  llvm::Error checkMemory(const plan::Plan &plan, const PipelineShape &shape) const;
  llvm::Error checkCapturePoints(const plan::Plan &plan) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  bool hasMade = false;
  /// What the passes before the cut have made, and with which limits of memory it is that.
  struct Sharded {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    LimitRange limits;
  };
  /// By the passes, limits left out.
  llvm::StringMap<std::vector<Sharded>> sharded;
  struct Emitted {
    std::unique_ptr<plan::Plan> plan;
    LimitRange limits;
  };
  /// By the program, and the passes that cut it, limits left out.
  std::map<std::pair<mlir::Operation *, std::string>, std::vector<Emitted>> emitted;
  std::map<mlir::Operation *, KnownPipelines> pipelines;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PLANMAKER_H
