//===- CheckSignatures.h - Whether functions share their weights -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_CHECKSIGNATURES_H
#define CLEAVE_CODEGEN_CHECKSIGNATURES_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave {

/// Fails unless the functions of a module, which are split into stages, agree on each weight and state that
/// they share: type, role, names, sharding and style of a weight; type and stage of a state. A further
/// function may use a weight in stages of the first function alone, unless the weight is so small that stages
/// repeat it (kSmallWeightBytes).
mlir::LogicalResult checkSignatures(mlir::ModuleOp module);

} // namespace cleave

#endif // CLEAVE_CODEGEN_CHECKSIGNATURES_H
