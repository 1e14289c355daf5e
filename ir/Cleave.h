//===- Cleave.h - The cleave dialect ----------------------------*- C++ -*-===//
#ifndef CLEAVE_IR_CLEAVE_H
#define CLEAVE_IR_CLEAVE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <limits>
#include <string>

#include "ir/CleaveDialect.h.inc"

#include "ir/CleaveEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/CleaveTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/CleaveAttrs.h.inc"

#define GET_OP_CLASSES
#include "ir/CleaveOps.h.inc"

namespace cleave {

/// What a pass has decided about `op` (ir/CleaveDecisions.td); null where it has not run.
template <typename DecisionAttr> DecisionAttr decisionOf(mlir::Operation *op) {
  return op->getAttrOfType<DecisionAttr>(DecisionAttr::name);
}
/// Leaves the decision on `op`, in the place of an earlier one.
template <typename DecisionAttr> void setDecision(mlir::Operation *op, DecisionAttr decision) {
  op->setAttr(DecisionAttr::name, decision);
}

/// Registers all dialects of Cleave's IR: func, cleave, and one per operator namespace.
void registerDialects(mlir::DialectRegistry &registry);

/// Of a `cleave.param`: an operation of the phase update changes it, so that nothing can be prepared from it.
inline constexpr llvm::StringLiteral kTrainedAttr = "cleave.trained";

/// On an operation: the number of its pipeline stage, an integer.
inline constexpr llvm::StringLiteral kStageIndexAttr = "cleave.stage_index";
/// The number of its pipeline stage (kStageIndexAttr); nothing if it has none.
std::optional<int64_t> stageIndexOf(mlir::Operation *op);

/// The phase of a training step that the operation belongs to (`cleave.phase`).
Phase phaseOf(mlir::Operation *op);

/// The names, in torch.optim, of what an optimizer keeps of a weight from step to step.
llvm::SmallVector<llvm::StringRef> optimizerStates(Optimizer optimizer, double momentum);

/// True if values of the type are tensors, with or without a known shape, or may be one (an optional tensor).
bool isTensorLike(mlir::Type type);

/// The type as TorchScript's operator schemas write it: `int`, `Tensor?`, `float[]`, `Dict(str, Tensor)`.
std::string schemaTypeName(mlir::Type type);

/// The location's module path: the name of its innermost NameLoc; empty if there is none.
llvm::StringRef modulePath(mlir::Location location);
llvm::StringRef modulePath(mlir::Operation *op);

} // namespace cleave

#endif // CLEAVE_IR_CLEAVE_H
