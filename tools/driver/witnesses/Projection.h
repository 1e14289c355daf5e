//===- Projection.h - A large tensor in a few numbers -----------*- C++ -*-===//
//
// Private to tools/driver/.
//
// A complex tensor counts as a real one with a last dimension of size 2. The leading dimensions are those
// whose sizes have a product of at most 4096; the others form blocks of n elements, row-major. The sum of a
// block is
//
//   Σ s(i) · x_i / √n,  s(i) = 1 where splitmix64(i) is even, else −1,
//
// where elements that are not finite count 0. cleave-trace computes the same (docs/witnesses.md).
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_WITNESSES_PROJECTION_H
#define CLEAVE_TOOLS_DRIVER_WITNESSES_PROJECTION_H

#include "llvm/ADT/ArrayRef.h"
#include <ATen/core/Tensor.h>
#include <cstdint>
#include <vector>

namespace cleave {

/// Tensors of at most as many elements are stored whole, larger ones in at most as many blocks.
inline constexpr int64_t kMaxWholeElements = 4096;
inline constexpr size_t kProjectionSamples = 64;

struct Projection {
  /// Of the tensor.
  std::vector<int64_t> shape;
  /// Elements of a block.
  int64_t blockSize = 1;
  /// By block: its sum, its largest finite magnitude, and the number of its elements that are not finite.
  std::vector<double> sums, largest;
  std::vector<int64_t> nonfinite;
  /// Elements j, from 0: those at splitmix64(1000003 + j) modulo the number of elements.
  std::vector<double> samples;
};

uint64_t splitmix64(uint64_t value);

/// Number of leading dimensions. \param shape  of a real tensor.
size_t leadingDimensions(llvm::ArrayRef<int64_t> shape);

/// Reads the tensor, which must not be empty, piece by piece.
Projection project(const at::Tensor &tensor);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_WITNESSES_PROJECTION_H
