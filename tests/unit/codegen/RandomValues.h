//===- RandomValues.h - What random programs run on -------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H
#define CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H

#include "tests/unit/interpreter/Interpreter.h"

namespace cleave {

/// With all dialects, passes and kernels of collectives.
mlir::MLIRContext &testContext();

/// Small integers for every weight, and for every input; rows that there are for lookups.
std::pair<Named, Tensors> randomValues(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H
