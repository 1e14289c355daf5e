//===- ProbeShapes.h - Sizes that tell named dimensions apart ---*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H
#define CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H

#include "ir/ExampleShapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Shapes where every named dimension has a prime of its own, times what it is a multiple of: sizes that are
/// equal in the example inputs alone decide nothing. Primes are above 10,000, so that no static size has
/// them.
ExampleShapes probeShapes(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_SHARDING_PROBESHAPES_H
