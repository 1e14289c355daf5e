//===- DimExpr.h - Sizes as expressions of dynamic dimensions ---*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_DIMEXPR_H
#define CLEAVE_CODEGEN_PLAN_DIMEXPR_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::plan {

/// The value of `expr` for symbols of these sizes; nothing if the expression is unknown (divisor 0), names a
/// missing symbol, or overflows int64.
std::optional<int64_t> evaluate(const DimExpr &expr, llvm::ArrayRef<int64_t> symbols);

/// The constant, if the expression is known and names no symbol.
std::optional<int64_t> asConstant(const DimExpr &expr);

/// The symbol, if the expression is exactly one symbol.
std::optional<uint32_t> asSymbol(const DimExpr &expr);

DimExpr constantDim(int64_t value);
DimExpr symbolDim(uint32_t symbol);
DimExpr unknownDim();

/// Text such as `batch*12`, `(seq + 1) / 2`, `768`, `?`.
std::string toString(const DimExpr &expr, llvm::ArrayRef<std::string> symbolNames);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_DIMEXPR_H
