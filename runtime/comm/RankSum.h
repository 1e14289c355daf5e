//===- RankSum.h - Sums in the order of ranks -------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_COMM_RANKSUM_H
#define CLEAVE_RUNTIME_COMM_RANKSUM_H

#include "llvm/ADT/ArrayRef.h"
#include <c10/core/ScalarType.h>
#include <cstdint>
#include <utility>

namespace cleave::runtime {

/// Adds `count` elements of each input, in the order of the inputs, and writes the sums into every output.
/// bfloat16 and half are added in float32 and rounded once, integers wrap, of bools it is whether any is
/// true. Inputs and outputs do not overlap.
void sumInOrder(c10::ScalarType dtype, llvm::ArrayRef<const char *> inputs, llvm::ArrayRef<char *> outputs,
                int64_t count);

/// The elements [begin, end) of `count` that rank `index` of `ranks` adds: whole cache lines, of any dtype.
std::pair<int64_t, int64_t> chunkOf(int64_t count, int64_t ranks, int64_t index);

/// Throws c10::Error for dtypes that `sumInOrder` does not add.
void checkSummable(c10::ScalarType dtype);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_RANKSUM_H
