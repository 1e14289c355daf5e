//===- PlanMaker.h - The passes over one model ------------------*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_PLANMAKER_H
#define CLEAVE_TOOLS_DRIVER_PLANMAKER_H

#include "codegen/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/ModelSource.h"

namespace cleave {

/// Makes plans of a model, for one mesh or for several; the model stays as it is.
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

  /// The passes accepted the model at least once; what failed later is no matter of how it was split.
  bool hasMadeOne() const { return hasMade; }

private:
  /// A plan, and an error where the devices have too little memory for it.
  struct Made {
    std::unique_ptr<plan::Plan> plan;
    llvm::Error tooLarge;
  };
  llvm::Expected<std::unique_ptr<plan::Plan>> runPasses(const PipelineShape &shape);
  /// With a cut by what stages were predicted to hold beside weights, where the first one is too much for a device.
  Made fitCut(const PipelineShape &shape);
  llvm::Expected<mlir::ModuleOp> runSharding(const PipelineShape &shape);
  llvm::Error run(mlir::ModuleOp module, const std::string &passes, unsigned done);
  llvm::Error checkMemory(const plan::Plan &plan, const PipelineShape &shape) const;
  llvm::Error checkCapturePoints(const plan::Plan &plan) const;

  const CompileOptions &options;
  const ModelSource &source;
  mlir::MLIRContext &context;
  bool hasMade = false;
  /// What the passes before the cut have made, by these.
  llvm::StringMap<mlir::OwningOpRef<mlir::ModuleOp>> sharded;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PLANMAKER_H
