//===- ProbeShapes.h - Sizes that distinguish dynamic dimensions -*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H
#define CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H

#include "ir/ExampleShapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Shapes in which each dynamic dimension is a prime of its own, times its `divisible_by`, so that dimensions
/// which are equal only in the example inputs differ. Primes are above 10,000, so that no static size
/// contains them.
ExampleShapes probeShapes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H
