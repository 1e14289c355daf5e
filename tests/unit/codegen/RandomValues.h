//===- RandomValues.h - What random programs run on -------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H
#define CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H

#include "tests/unit/interpreter/Interpreter.h"

namespace cleave {

/// With all dialects, passes and kernels of collectives.
mlir::MLIRContext &testContext();

/// Small integers for every weight, and for every input; for operands of lookups, valid row indices.
std::pair<NamedTensors, Tensors> randomValues(mlir::func::FuncOp function);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_CODEGEN_RANDOMVALUES_H
