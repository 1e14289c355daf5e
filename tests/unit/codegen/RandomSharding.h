//===- RandomSharding.h - Random sharding decisions -------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_RANDOMSHARDING_H
#define CLEAVE_TESTS_UNIT_CODEGEN_RANDOMSHARDING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tests/unit/partitioner/RandomGraph.h"

namespace cleave {

/// Runs passes of functions, such as `canonicalize,cse`.
mlir::LogicalResult runPasses(mlir::ModuleOp module, llvm::StringRef passes);

/// Sets `ranks` tensor-parallel ranks, and makes one to four random weight dimensions seeds of sharding
/// propagation (SeedAttr).
void addRandomShardingSeeds(mlir::func::FuncOp function, Dice &dice, unsigned ranks);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_RANDOMSHARDING_H
