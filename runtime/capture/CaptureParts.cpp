//===- CaptureParts.cpp ---------------------------------------------------===//
#include "runtime/capture/CaptureParts.h"
#include "runtime/base/TensorParts.h"
#include "runtime/comm/RankSum.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <array>
#include <vector>

namespace cleave::runtime {

bool isSplit(const plan::CapturePoint &point) {
  return point.partial || !point.slots.front()->ranges.empty();
}

at::Tensor partOf(const plan::CapturePoint &point, const plan::CaptureSlot &slot, const at::Tensor &whole) {
  if (point.partial)
    return slot.tp_rank == 0 ? whole : at::zeros_like(whole);
  return partOf(whole, slot.ranges);
}

static at::Tensor sumOf(llvm::ArrayRef<at::Tensor> terms) {
  checkSummable(terms.front().scalar_type());
  std::vector<at::Tensor> contiguous;
  std::vector<const char *> inputs;
  for (const at::Tensor &term : terms) {
    TORCH_CHECK(term.sizes() == terms.front().sizes() && term.scalar_type() == terms.front().scalar_type(),
                "tensor-parallel ranks hold terms of different types");
    contiguous.push_back(term.cpu().contiguous());
    inputs.push_back(static_cast<const char *>(contiguous.back().const_data_ptr()));
  }
  at::Tensor sum = at::empty(terms.front().sizes(), contiguous.front().options());
  sumInOrder(sum.scalar_type(), inputs, {static_cast<char *>(sum.mutable_data_ptr())}, sum.numel());
  return sum.to(terms.front().device());
}

at::Tensor wholeOf(const plan::CapturePoint &point, llvm::ArrayRef<at::Tensor> parts) {
  if (point.partial)
    return sumOf(parts);
  if (!isSplit(point))
    return parts.front();
  std::vector<int64_t> sizes = parts.front().sizes().vec();
  for (const auto &slot : point.slots)
    for (const auto &ranges : slot->ranges) {
      TORCH_CHECK(ranges->dim < sizes.size(), "capture point ", point.path, " has ", sizes.size(),
                  " dimensions, the plan splits dimension ", ranges->dim);
      for (auto [offset, size] : llvm::zip(ranges->offsets, ranges->sizes))
        sizes[ranges->dim] = std::max(sizes[ranges->dim], offset + size);
    }
  at::Tensor whole = at::empty(sizes, parts.front().options());
  for (auto [slot, part] : llvm::zip(point.slots, parts))
    writePart(whole, slot->ranges, part);
  return whole;
}

at::Tensor gatherWhole(const plan::CapturePoint &point, const at::Tensor &part, Communicator &group) {
  if (point.partial)
    return group.allReduce(part);
  if (!isSplit(point))
    return part;
  // Offset in the whole, rank, offset there, size.
  std::vector<std::array<int64_t, 4>> ranges;
  for (const auto &slot : point.slots) {
    TORCH_CHECK(slot->ranges.size() == 1 && slot->ranges[0]->dim == point.slots[0]->ranges[0]->dim,
                "capture point ", point.path,
                " is split in several dimensions, which a hook cannot put together");
    int64_t local = 0;
    for (auto [offset, size] : llvm::zip(slot->ranges[0]->offsets, slot->ranges[0]->sizes)) {
      ranges.push_back({offset, int64_t(slot->tp_rank), local, size});
      local += size;
    }
  }
  llvm::sort(ranges);
  std::vector<int64_t> pieces;
  int64_t end = 0;
  for (auto [offset, rank, local, size] : ranges) {
    // Ranks may hold the same range.
    if (offset < end)
      continue;
    pieces.insert(pieces.end(), {rank, local, size});
    end = offset + size;
  }
  return group.allGather(part, point.slots[0]->ranges[0]->dim, pieces);
}

} // namespace cleave::runtime
