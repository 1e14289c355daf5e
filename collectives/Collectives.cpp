//===- Collectives.cpp - Operators between the ranks of a group -----------===//
#include "collectives/Collectives.h"
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace cleave {

using at::IntArrayRef;
using at::Tensor;

int64_t extentOf(IntArrayRef list, size_t width) {
  TORCH_CHECK(list.size() % width == 0, "found a list of ", list.size(), " numbers, expected a multiple of ",
              width);
  int64_t extent = 0;
  for (size_t i = width; i <= list.size(); i += width) {
    const int64_t offset = list[i - 2], size = list[i - 1];
    TORCH_CHECK(offset >= 0 && size >= 0 && size <= std::numeric_limits<int64_t>::max() - extent,
                "found positions from ", offset, " on and ", size,
                " of them, expected none that is negative");
    extent += size;
  }
  return extent;
}

std::vector<int64_t> sizesWith(const Tensor &tensor, int64_t dim, int64_t extent) {
  TORCH_CHECK(dim >= 0 && dim < tensor.dim(), "found dimension ", dim, ", expected one of the tensor's ",
              tensor.dim());
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes[dim] = extent;
  return sizes;
}

Tensor shard(const Tensor &tensor, int64_t dim, IntArrayRef ranges) {
  Tensor result = at::empty(sizesWith(tensor, dim, extentOf(ranges, 2)), tensor.options());
  int64_t done = 0;
  for (size_t i = 0; i < ranges.size(); i += 2) {
    // Compared before they are added: the numbers are from a file.
    TORCH_CHECK(ranges[i] <= tensor.size(dim) && ranges[i + 1] <= tensor.size(dim) - ranges[i],
                "found positions ", ranges[i], " to ", ranges[i] + ranges[i + 1], ", expected at most ",
                tensor.size(dim));
    result.narrow(dim, done, ranges[i + 1]).copy_(tensor.narrow(dim, ranges[i], ranges[i + 1]));
    done += ranges[i + 1];
  }
  return result;
}

namespace {
Tensor likeInput(const Tensor &tensor) { return at::empty(tensor.sizes(), tensor.options()); }

Tensor gathered(const Tensor &tensor, int64_t dim, IntArrayRef pieces) {
  return at::empty(sizesWith(tensor, dim, extentOf(pieces, 3)), tensor.options());
}

Tensor scattered(const Tensor &tensor, int64_t dim, IntArrayRef ranges) {
  return at::empty(sizesWith(tensor, dim, extentOf(ranges, 2)), tensor.options());
}

Tensor exchanged(const Tensor &tensor, int64_t from, IntArrayRef pieces, int64_t to, IntArrayRef ranges) {
  return scattered(gathered(tensor, from, pieces), to, ranges);
}
} // namespace

void registerCollectives() {
  static torch::Library schemas = [] {
    torch::Library library(torch::Library::DEF, "spmd", std::nullopt, __FILE__, __LINE__);
    library.def("all_reduce(Tensor x) -> Tensor");
    library.def("all_gather(Tensor x, int dim, int[] pieces) -> Tensor");
    library.def("reduce_scatter(Tensor x, int dim, int[] ranges) -> Tensor");
    library.def("all_to_all(Tensor x, int from, int[] pieces, int to, int[] ranges) -> Tensor");
    library.def("broadcast(Tensor x, int root) -> Tensor");
    library.def("shard(Tensor x, int dim, int[] ranges) -> Tensor",
                torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, shard));
    return library;
  }();
  static torch::Library shapes = [] {
    torch::Library library(torch::Library::IMPL, "spmd", c10::DispatchKey::Meta, __FILE__, __LINE__);
    library.impl("all_reduce", likeInput);
    library.impl("all_gather", gathered);
    library.impl("reduce_scatter", scattered);
    library.impl("all_to_all", exchanged);
    library.impl("broadcast", [](const Tensor &tensor, int64_t) { return likeInput(tensor); });
    return library;
  }();
}

} // namespace cleave
