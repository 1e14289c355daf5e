//===- DimExpr.h - Sizes as expressions of named dimensions -----*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_DIMEXPR_H
#define CLEAVE_CODEGEN_PLAN_DIMEXPR_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::plan {

/// The value of `expr` where symbol i has size `symbols[i]`; nothing when the expression is unknown (divisor
/// 0), names a symbol that is not there, or leaves the range of int64.
std::optional<int64_t> evaluate(const DimExpr &expr, llvm::ArrayRef<int64_t> symbols);

/// The constant it is, if it names no symbol and is known.
std::optional<int64_t> asConstant(const DimExpr &expr);

/// The symbol that it is, if it is nothing else.
std::optional<uint32_t> asSymbol(const DimExpr &expr);

DimExpr constantDim(int64_t value);
DimExpr symbolDim(uint32_t symbol);
DimExpr unknownDim();

/// `batch*12`, `(seq + 1) / 2`, `768`, `?`.
std::string toString(const DimExpr &expr, llvm::ArrayRef<std::string> symbolNames);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_DIMEXPR_H
