//===- DeviceCollectives.cpp - Results of collectives on GPUs -------------===//
#include "runtime/device/DeviceCollectives.h"
#include "collectives/Collectives.h"
#include <ATen/Functions.h>

namespace cleave::runtime {

using at::Tensor;

Tensor sumOn(c10::Device device, llvm::ArrayRef<Tensor> given) {
  const at::ScalarType dtype = given.front().scalar_type();
  const at::ScalarType wide = dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
  // Copies first and widens afterwards: half of the bytes go between devices.
  auto brought = [&](const Tensor &tensor) {
    return tensor.contiguous().to(device, /*non_blocking=*/true).to(wide);
  };
  Tensor sum = brought(given.front());
  if (sum.is_alias_of(given.front()))
    sum = sum.clone();
  for (const Tensor &tensor : given.drop_front())
    dtype == at::kBool ? sum.logical_or_(brought(tensor)) : sum.add_(brought(tensor));
  return sum.to(dtype);
}

Tensor gatherOn(c10::Device device, llvm::ArrayRef<Tensor> given, int64_t dim, at::IntArrayRef pieces) {
  const std::vector<int64_t> sizes = sizesWith(given.front(), dim, extentOf(pieces, 3));
  Tensor result = at::empty(sizes, given.front().options().device(device));
  int64_t done = 0;
  for (size_t i = 0; i < pieces.size(); i += 3) {
    TORCH_CHECK(pieces[i] < int64_t(given.size()), "found a piece of rank ", pieces[i],
                ", expected one of the group's ", given.size());
    const Tensor piece = shard(given[pieces[i]], dim, pieces.slice(i + 1, 2));
    result.narrow(dim, done, pieces[i + 2]).copy_(piece, /*non_blocking=*/true);
    done += pieces[i + 2];
  }
  return result;
}

std::vector<Tensor> shardEach(llvm::ArrayRef<Tensor> given, int64_t dim, at::IntArrayRef ranges) {
  std::vector<Tensor> parts;
  for (const Tensor &tensor : given)
    parts.push_back(shard(tensor, dim, ranges));
  return parts;
}

} // namespace cleave::runtime
