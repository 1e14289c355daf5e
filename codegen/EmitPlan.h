//===- EmitPlan.h - From split IR to a plan ---------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_EMITPLAN_H
#define CLEAVE_CODEGEN_EMITPLAN_H

#include "codegen/plan/Checksum.h"
#include "codegen/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave {

struct PlanOrigin {
  std::string producer;
  plan::Digest fingerprint;
  /// The pass pipeline, as text.
  std::string pipeline;
};

/// A plan for `module`, whose functions hold nothing but stages (split-stages), complete but for the shard
/// files: `shard_files` is empty until writeShards fills it. One rank a stage.
mlir::FailureOr<std::unique_ptr<plan::Plan>> emitPlan(mlir::ModuleOp module, const PlanOrigin &origin);

} // namespace cleave

#endif // CLEAVE_CODEGEN_EMITPLAN_H
