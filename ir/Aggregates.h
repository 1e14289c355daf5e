//===- Aggregates.h - Lists and dictionaries that are changed ---*- C++ -*-===//
#ifndef CLEAVE_IR_AGGREGATES_H
#define CLEAVE_IR_AGGREGATES_H

#include "mlir/IR/Value.h"

namespace cleave {

/// True if `value`, or a list or dictionary that it holds or is held in, may be appended to or written. Such
/// a value must not be merged with an equal one and not be made twice, and reads at different places give
/// different results. False for values that are no aggregates; true when in doubt.
bool mayChange(mlir::Value value);

} // namespace cleave

#endif // CLEAVE_IR_AGGREGATES_H
