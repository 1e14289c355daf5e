//===- Arguments.h - Inputs and outputs as trees of tensors -----*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_ARGUMENTS_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_ARGUMENTS_H

#include "frontend/torchscript/ModelInputs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <ATen/core/function_schema.h>

namespace cleave {

/// Makes the arguments of `function`, which has none yet, for the schema's arguments from the second on: a
/// function argument per tensor leaf, constants for scalars and absent optionals, and lists, tuples and dicts
/// around them. Sets the input tree. Unused and missing inputs are errors.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> makeArguments(mlir::func::FuncOp function,
                                                              mlir::OpBuilder &builder,
                                                              const c10::FunctionSchema &schema,
                                                              const ModelInputs &inputs);

/// Returns the tensor leaves of `result` from the function, names them, and sets the output tree and type.
mlir::LogicalResult returnLeaves(mlir::func::FuncOp function, mlir::OpBuilder &builder, mlir::Value result);

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_ARGUMENTS_H
