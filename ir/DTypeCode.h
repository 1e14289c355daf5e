//===- DTypeCode.h - Dtype codes of operator arguments ----------*- C++ -*-===//
#ifndef CLEAVE_IR_DTYPECODE_H
#define CLEAVE_IR_DTYPECODE_H

#include "mlir/IR/Types.h"

namespace cleave {

/// The code of an element type in an operator's argument `dtype` (6 is float32); nothing for a type that no
/// tensor has.
std::optional<int64_t> dtypeCodeOf(mlir::Type element);

} // namespace cleave

#endif // CLEAVE_IR_DTYPECODE_H
