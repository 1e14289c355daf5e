//===- Aggregates.h - Lists and dictionaries that change --------*- C++ -*-===//
#ifndef CLEAVE_IR_AGGREGATES_H
#define CLEAVE_IR_AGGREGATES_H

#include "mlir/IR/Value.h"

namespace cleave {

/// Whether somebody appends to, or writes an item of, the list or dictionary that `value` is, holds, or is held in. Such
/// a value is not what it was made from: it must neither be merged with an equal one nor be made twice, and reading it
/// gives different answers at different places. False for other values; when in doubt, true.
bool mayChange(mlir::Value value);

} // namespace cleave

#endif // CLEAVE_IR_AGGREGATES_H
