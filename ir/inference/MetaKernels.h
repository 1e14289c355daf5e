//===- MetaKernels.h - Families of kernels for the meta device --*- C++ -*-===//
//
// Private to ir/inference/. MetaKernels.cpp has the kernels of operators for which libtorch has none on the
// meta device; families with a file of their own are declared here.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_METAKERNELS_H
#define CLEAVE_IR_INFERENCE_METAKERNELS_H

#include "llvm/ADT/StringMap.h"
#include <ATen/core/boxing/KernelFunction.h>

namespace torch {
class Library;
}

namespace cleave {

void registerBackward(torch::Library &aten);

/// Kernels of composite operators, by IR name. They are not registered with libtorch, which would take such
/// an operator for one that a backend implements, and not decompose it under autograd.
using CompositeKernels = llvm::StringMap<c10::KernelFunction>;

void addRecurrent(CompositeKernels &kernels);

/// Null if the operator has none.
const c10::KernelFunction *findCompositeKernel(llvm::StringRef irName);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_METAKERNELS_H
