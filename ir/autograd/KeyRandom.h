//===- KeyRandom.h - Random numbers by key and index ------------*- C++ -*-===//
#ifndef CLEAVE_IR_AUTOGRAD_KEYRANDOM_H
#define CLEAVE_IR_AUTOGRAD_KEYRANDOM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave {

/// Replaces random operators by those of random/RandomOperators.h (OpSemantics::keyedForm). Each call is a
/// stream of its own. An element's index is the sum of its indices along each dimension, times a fixed number
/// for each, so that a micro-batch has the numbers of its samples in the whole batch. Where samples and
/// others share a dimension, samples are taken for its outer factor.
///
/// Adds the input `random_key`, and, where a value has dimension `batch`, `sample_index`
/// (ir/autograd/StepInputs.h); neither if nothing is replaced. Left as they are: calls inside control flow,
/// calls without such a form, and results that are complex, without known sizes, or with `batch` in another
/// way than once as a factor of one dimension.
///
/// \param batch  name of the dimension that micro-batches split; empty if there is none. Types of the new
///               operations are unknown until `infer-types` has run.
void keyRandom(mlir::func::FuncOp function, llvm::StringRef batch);

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_KEYRANDOM_H
