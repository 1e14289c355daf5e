//===- PlanTypes.h - Types, constants and trees of the plan -----*- C++ -*-===//
//
// Private to codegen/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLANTYPES_H
#define CLEAVE_CODEGEN_PLANTYPES_H

#include "codegen/plan/Plan.h"
#include "ir/Cleave.h"
#include "ir/SymbolicDim.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace cleave {

/// The index of each dynamic dimension in the signature's `symbols`, by name.
using SymbolIndices = llvm::StringMap<uint32_t>;

plan::DType dtypeOf(mlir::Type element);
/// A symbol that `symbols` lacks gets an index out of range, so that `validate` refuses the plan.
std::unique_ptr<plan::DimExpr> dimOf(const SymbolicDim &dim, const SymbolIndices &symbols);
/// Sizes and strides; strides are row-major for a type without a layout. Unranked if the IR's type is.
std::unique_ptr<plan::TensorType> tensorTypeOf(mlir::Type type, const SymbolIndices &symbols);
std::unique_ptr<plan::Constant> constantOf(mlir::Attribute value, mlir::Type type);
/// What a tensor-parallel rank holds of the dimension that `sharding` splits.
std::unique_ptr<plan::DimRanges> rangesOf(ShardingAttr sharding, uint32_t tpRank);
/// Sets `signature.batch` to the symbol of the batch size: the size of the dimension that micro-batches
/// split, or else of the batch dimension of the states. An initial value with several rows fixes the batch
/// size.
/// \param split  null where the batch is not split.
void setBatch(mlir::func::FuncOp function, mlir::StringAttr split, const SymbolIndices &symbols,
              plan::Signature &signature);
inline plan::Phase planPhaseOf(Phase phase) { return static_cast<plan::Phase>(phase); }
/// Converts a tree attribute of ir/Signature.h.
std::unique_ptr<plan::Tree> treeOf(mlir::Attribute tree);

} // namespace cleave

#endif // CLEAVE_CODEGEN_PLANTYPES_H
