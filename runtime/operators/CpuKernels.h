//===- CpuKernels.h - Other kernels for operators on the CPU ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H
#define CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H

#include "llvm/ADT/StringRef.h"
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// A kernel that does on the CPU what `operation` does as operator `name` (`aten::linear`), and faster;
/// `operation` itself where none is known.
///
/// Large float32 products go to oneDNN, which libtorch gives to MKL: 1.06 to 1.4 times as fast at 1,024 rows
/// on the one CPU measured, an AMD EPYC with AVX-512 (docs/results.md). Which kernel runs is decided by
/// shapes alone, so the same inputs give the same bits.
torch::jit::Operation cpuKernel(llvm::StringRef name, torch::jit::Operation operation);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H
