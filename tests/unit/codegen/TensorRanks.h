//===- TensorRanks.h - Random programs of tensor-parallel ranks ----------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_TENSORRANKS_H
#define CLEAVE_TESTS_UNIT_CODEGEN_TENSORRANKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "tests/unit/partitioner/RandomGraph.h"

namespace cleave {

mlir::LogicalResult runPasses(mlir::ModuleOp module, llvm::StringRef passes);

/// Random splits of the weights.
void addSeeds(mlir::func::FuncOp function, Dice &dice, unsigned ranks);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_TENSORRANKS_H
