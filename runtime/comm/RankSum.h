//===- RankSum.h - Sums in rank order ---------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_RANKSUM_H
#define CLEAVE_RUNTIME_COMM_RANKSUM_H

#include "llvm/ADT/ArrayRef.h"
#include <c10/core/ScalarType.h>
#include <cstdint>
#include <utility>

namespace cleave::runtime {

/// Adds `count` elements of each input, in the order of the inputs, and writes the sums to every output.
/// bfloat16 and half accumulate in float32 and are rounded once; integers wrap; for bools the sum is a
/// logical or. Inputs and outputs do not overlap.
void sumInOrder(c10::ScalarType dtype, llvm::ArrayRef<const char *> inputs, llvm::ArrayRef<char *> outputs,
                int64_t count);

/// The elements [begin, end) of `count` that rank `index` of `ranks` adds. Chunks are whole cache lines for
/// any dtype.
std::pair<int64_t, int64_t> chunkOf(int64_t count, int64_t ranks, int64_t index);

/// Throws c10::Error for dtypes that `sumInOrder` does not add.
void checkSummable(c10::ScalarType dtype);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_RANKSUM_H
