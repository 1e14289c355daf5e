//===- CpuKernels.h - Faster CPU kernels of operators -----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H
#define CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H

#include "llvm/ADT/StringRef.h"
#include <ATen/core/stack.h>

namespace cleave::runtime {

/// A faster CPU kernel that is equivalent to `operation`, the kernel of operator `name` (`aten::linear`);
/// `operation` itself if there is none.
///
/// Large float32 GEMMs go to oneDNN, where libtorch uses MKL: 1.06 to 1.4 times as fast at 1,024 rows on the
/// one CPU measured, an AMD EPYC with AVX-512 (docs/results.md). The kernel is chosen by shapes alone, so
/// that the same inputs give the same bits.
torch::jit::Operation cpuKernel(llvm::StringRef name, torch::jit::Operation operation);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_OPERATORS_CPUKERNELS_H
