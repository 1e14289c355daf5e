//===- Projection.cpp - A large tensor in a few numbers -------------------===//
#include "tools/driver/witnesses/Projection.h"
#include <ATen/ATen.h>
#include <cmath>

namespace cleave {

uint64_t splitmix64(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

size_t leadingDimensions(llvm::ArrayRef<int64_t> shape) {
  int64_t blocks = 1;
  size_t count = 0;
  // Divided rather than multiplied: sizes of a file may be anything.
  while (count < shape.size() && shape[count] <= kMaxWholeElements / std::max<int64_t>(blocks, 1))
    blocks *= shape[count++];
  return count;
}

/// Calls `use` with each element, as a double.
template <typename Use> static void forEachElement(const at::Tensor &flat, Use use) {
  constexpr int64_t kPiece = 1 << 16;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const at::Tensor piece = flat.slice(0, begin, begin + kPiece).to(at::kDouble);
    const double *elements = piece.const_data_ptr<double>();
    for (int64_t i = 0; i < piece.numel(); ++i)
      use(elements[i]);
  }
}

Projection project(const at::Tensor &tensor) {
  const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
  const at::Tensor flat = real.contiguous().view({-1});
  Projection result;
  result.shape = real.sizes().vec();
  const size_t leading = leadingDimensions(result.shape);
  const int64_t blocks = c10::multiply_integers(real.sizes().slice(0, leading));
  result.blockSize = flat.numel() / blocks;
  result.sums.resize(blocks);
  result.largest.resize(blocks);
  result.nonfinite.resize(blocks);
  int64_t block = 0, within = 0;
  forEachElement(flat, [&](double x) {
    if (within == result.blockSize) {
      ++block;
      within = 0;
    }
    const bool isPositive = splitmix64(within++) % 2 == 0;
    if (!std::isfinite(x)) {
      ++result.nonfinite[block];
      return;
    }
    result.sums[block] += isPositive ? x : -x;
    result.largest[block] = std::max(result.largest[block], std::abs(x));
  });
  for (double &sum : result.sums)
    sum /= std::sqrt(double(result.blockSize));
  for (size_t j = 0; j < kProjectionSamples; ++j) {
    const int64_t at = splitmix64(1000003 + j) % uint64_t(flat.numel());
    result.samples.push_back(flat[at].to(at::kDouble).item<double>());
  }
  return result;
}

} // namespace cleave
