//===- TensorParts.cpp ----------------------------------------------------===//
#include "runtime/base/TensorParts.h"
#include "collectives/Collectives.h"
#include "llvm/ADT/STLExtras.h"
#include <vector>

namespace cleave::runtime {

at::Tensor partOf(const at::Tensor &whole, PartRanges ranges) {
  at::Tensor part = whole;
  for (const auto &own : ranges) {
    std::vector<int64_t> flat;
    for (auto [offset, size] : llvm::zip(own->offsets, own->sizes))
      flat.insert(flat.end(), {offset, size});
    part = shard(part, own->dim, flat);
  }
  return part;
}

/// Dimension by dimension from the last of `ranges` on.
void writePart(const at::Tensor &whole, PartRanges ranges, const at::Tensor &part) {
  if (ranges.empty()) {
    whole.copy_(part);
    return;
  }
  const plan::DimRanges &own = *ranges.back();
  int64_t done = 0;
  for (auto [offset, size] : llvm::zip(own.offsets, own.sizes)) {
    writePart(whole.narrow(own.dim, offset, size), ranges.drop_back(), part.narrow(own.dim, done, size));
    done += size;
  }
}

} // namespace cleave::runtime
