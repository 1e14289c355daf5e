//===- EmitPlan.h - From split IR to a plan ---------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_EMITPLAN_H
#define CLEAVE_CODEGEN_EMITPLAN_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/files/Checksum.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

struct PlanOrigin {
  std::string producer;
  plan::Digest fingerprint;
  /// The pass pipeline, as text.
  std::string passPipeline;
};

/// Emits a plan for `module`, whose functions contain only stages (after split-stages). The plan is complete
/// except for `shard_files`, which writeShards fills.
/// Stages run on the ranks that assign-schedule has decided on; without it, one rank runs each stage.
mlir::FailureOr<std::unique_ptr<plan::Plan>> emitPlan(mlir::ModuleOp module, const PlanOrigin &origin);

} // namespace cleave

#endif // CLEAVE_CODEGEN_EMITPLAN_H
