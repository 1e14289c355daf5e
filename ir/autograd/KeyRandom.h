//===- KeyRandom.h - Random numbers by key and index ------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_KEYRANDOM_H
#define CLEAVE_IR_AUTOGRAD_KEYRANDOM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Replaces random operators by those of random/RandomOperators.h (OpSemantics::keyedForm). Each call is a
/// stream of its own. The index of an element is the sum over dimensions of position · stride; strides are
/// constants. Along the batch, positions count from the start of the whole batch, not of the micro-batch. In
/// a dimension of size batch · n the batch is assumed to be the outer factor.
///
/// Adds the input `random_key`, and, where a value has dimension `batch`, `sample_index`
/// (ir/autograd/StepInputs.h); neither if nothing is replaced. Left as they are: calls inside control flow,
/// calls without such a form, results that are complex, without known sizes, or with `batch` in another way
/// than once as a factor of one dimension, calls with several results, and calls whose result is not
/// row-major and differs in type from operand 0.
///
/// \param batch  name of the dimension that micro-batches split; empty if there is none. Types of the new
///               operations are unknown until `infer-types` has run.
void keyRandom(mlir::func::FuncOp function, llvm::StringRef batch);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_KEYRANDOM_H
