//===- DTypes.h - Element types of plans and of libtorch --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_DTYPES_H
#define CLEAVE_RUNTIME_BASE_DTYPES_H

#include "codegen/plan/Plan.h"
#include <c10/core/ScalarType.h>
#include <optional>

namespace cleave::runtime {

/// The libtorch dtype; nothing for `Unknown`.
std::optional<c10::ScalarType> scalarTypeOf(plan::DType dtype);
/// The plan's dtype; `Unknown` for dtypes that a plan cannot name.
plan::DType dtypeOf(c10::ScalarType type);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_DTYPES_H
