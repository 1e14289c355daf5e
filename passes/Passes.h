//===- Passes.h - Cleave's passes -------------------------------*- C++ -*-===//
#ifndef CLEAVE_PASSES_PASSES_H
#define CLEAVE_PASSES_PASSES_H

#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Registers Cleave's passes, and MLIR's canonicalize and cse, so that pipelines can be given as text.
void registerPasses();

// Attributes that passes leave for later passes.
inline constexpr llvm::StringLiteral kPrecisionAttr = "cleave.precision";
inline constexpr llvm::StringLiteral kStageAttr = "cleave.stage";
inline constexpr llvm::StringLiteral kStageSecondsAttr = "cleave.stage_seconds";
inline constexpr llvm::StringLiteral kStageRecvBytesAttr = "cleave.stage_recv_bytes";
inline constexpr llvm::StringLiteral kCutBoundAttr = "cleave.cut_bound";
inline constexpr llvm::StringLiteral kCutProofAttr = "cleave.cut_proof";
inline constexpr llvm::StringLiteral kBottleneckAttr = "cleave.bottleneck";
/// The weight limits that lead to the same cut, as a half-open range.
inline constexpr llvm::StringLiteral kCutLimitsAttr = "cleave.cut_limits";
inline constexpr llvm::StringLiteral kMicrobatchesAttr = "cleave.microbatches";
inline constexpr llvm::StringLiteral kMicrobatchSecondsAttr = "cleave.microbatch_seconds";
inline constexpr llvm::StringLiteral kLinkAttr = "cleave.link";
inline constexpr llvm::StringLiteral kLinkOverridesAttr = "cleave.link_overrides";
inline constexpr llvm::StringLiteral kDevicesAttr = "cleave.devices";
inline constexpr llvm::StringLiteral kThreadsAttr = "cleave.threads";
inline constexpr llvm::StringLiteral kMachineAttr = "cleave.machine";
inline constexpr llvm::StringLiteral kMemoryLimitsAttr = "cleave.memory_limits";
inline constexpr llvm::StringLiteral kBatchAttr = "cleave.batch";
inline constexpr llvm::StringLiteral kBatchObstacleAttr = "cleave.batch_obstacle";
inline constexpr llvm::StringLiteral kRanksAttr = "cleave.ranks";
/// Limit of the ranks in a plan.
inline constexpr uint32_t kMostRanks = 65536;
inline constexpr llvm::StringLiteral kDataRanksAttr = "cleave.data_ranks";

} // namespace cleave

#endif // CLEAVE_PASSES_PASSES_H
