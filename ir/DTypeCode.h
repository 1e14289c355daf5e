//===- DTypeCode.h - Dtypes as operators take them --------------*- C++ -*-===//
#ifndef CLEAVE_IR_DTYPECODE_H
#define CLEAVE_IR_DTYPECODE_H

#include "mlir/IR/Types.h"

namespace cleave {

/// The number by which an argument `dtype` of an operator names an element type (6 is float32); nothing for
/// types that no tensor has.
std::optional<int64_t> dtypeCodeOf(mlir::Type element);

} // namespace cleave

#endif // CLEAVE_IR_DTYPECODE_H
