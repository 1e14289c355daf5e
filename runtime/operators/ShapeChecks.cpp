//===- ShapeChecks.cpp - Sizes, strides and dimensions that kernels trust -===//
#include "runtime/operators/ArgumentCheckParts.h"
#include "llvm/ADT/StringMap.h"
#include <ATen/ops/isfinite.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::ArrayRef;

/// Elements from the first to the last of a tensor that has some.
static int64_t reachOf(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t last = 0, step;
  for (size_t dim = 0; dim < sizes.size(); ++dim)
    TORCH_CHECK(!__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &step) &&
                    !__builtin_add_overflow(last, step, &last),
                "found sizes ", sizes, " and strides ", strides, ", which overflow");
  return last + 1;
}

/// as_strided(self, size, stride, storage_offset), and as_strided_scatter(self, src, …): a view of what
/// `self` shows. Memory around that may be of other values, or of nobody.
static void checkStrided(ArrayRef<IValue> arguments) {
  const at::Tensor &self = tensorOf(arguments[0]);
  const ArrayRef<IValue> view = arguments.take_back(3);
  const std::vector<int64_t> sizeList = view[0].toIntVector(), strideList = view[1].toIntVector();
  const at::IntArrayRef sizes = sizeList, strides = strideList;
  TORCH_CHECK(sizes.size() == strides.size(), "found ", sizes.size(), " sizes and ", strides.size(),
              " strides");
  bool isEmpty = false;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    TORCH_CHECK(sizes[dim] >= 0 && strides[dim] >= 0, "found sizes ", sizes, " and strides ", strides,
                ", expected none below 0");
    isEmpty |= sizes[dim] == 0;
  }
  const int64_t begin = view[2].isNone() ? 0 : view[2].toInt() - self.storage_offset();
  int64_t end;
  TORCH_CHECK(isEmpty || (self.numel() > 0 && begin >= 0 &&
                          !__builtin_add_overflow(begin, reachOf(sizes, strides), &end) &&
                          end <= reachOf(self.sizes(), self.strides())),
              "found a view of sizes ", sizes, " and strides ", strides, " that reaches outside a tensor ",
              self.sizes(), "; take it of the whole tensor");
}

/// _chunk_cat(tensors, dim, num_chunks) reads the sizes of each along `dim`.
static void checkChunkCat(ArrayRef<IValue> arguments) {
  for (const IValue &tensor : arguments[0].toListRef())
    TORCH_CHECK(tensorOf(tensor).dim() > 0, "found a tensor without dimensions among those to be joined");
}

/// As many as tensors may have.
static void checkDims(int64_t dims) {
  TORCH_CHECK(dims <= kMaxDims, "found ", dims, " dimensions, expected at most ", kMaxDims);
}

/// roll(self, shifts, dims) calls itself for each shift, and fft_fftshift(self, dims) and its inverse call
/// it.
static void checkShifts(ArrayRef<IValue> arguments) {
  if (arguments[1].isIntList())
    checkDims(int64_t(arguments[1].toIntVector().size()));
}

/// meshgrid(tensors, …) and cartesian_prod(tensors) make as many dimensions as there are tensors.
static void checkGrid(ArrayRef<IValue> arguments) { checkDims(int64_t(arguments[0].toListRef().size())); }

/// combinations(self, r, …): a grid of `r` dimensions.
static void checkCombinations(ArrayRef<IValue> arguments) { checkDims(arguments[1].toInt()); }

/// linalg_lstsq(self, b, …): LAPACK prints of numbers that are not finite.
static void checkFinite(ArrayRef<IValue> arguments) {
  for (const IValue &matrix : arguments.take_front(2))
    TORCH_CHECK(at::isfinite(tensorOf(matrix)).all().item().toBool(),
                "found numbers that are not finite, expected a system that has a solution");
}

/// _grouped_mm(self, mat2, offs, …): `offs` says where each group ends. What is behind the last one is in no
/// group.
static void checkGroupEnds(ArrayRef<IValue> arguments) {
  const at::Tensor &self = tensorOf(arguments[0]), &other = tensorOf(arguments[1]);
  const at::Tensor *ends = optionalTensorOf(arguments[2]);
  // Offsets on a GPU are not checked, since reading them would synchronize.
  if (!ends || !ends->is_cpu())
    return;
  TORCH_CHECK((self.dim() == 2 || other.dim() == 2) && ends->dim() == 1 && ends->numel() > 0,
              "found ends of groups ", ends->sizes(), " of products of ", self.sizes(), " and ",
              other.sizes());
  checkDType(*ends, at::kInt);
  // Rows of the first, columns of the second, or what both are summed over.
  const int64_t whole = self.dim() == 2 ? self.size(other.dim() == 2 ? 1 : 0) : other.size(1);
  const at::Tensor list = ends->contiguous();
  const ArrayRef<int32_t> numbers(list.const_data_ptr<int32_t>(), list.numel());
  int64_t last = 0;
  for (int32_t end : numbers) {
    TORCH_CHECK(end >= last, "found a group that ends at ", end, ", before the one in front of it");
    last = end;
  }
  TORCH_CHECK(last <= whole, "found a group that ends at ", last, ", behind the last of ", whole);
}

/// histc(self, bins, …): the kernel computes the number of a bin in the dtype of the numbers, which has to
/// have it.
static void checkBins(ArrayRef<IValue> arguments) {
  const at::ScalarType type = tensorOf(arguments[0]).scalar_type();
  const int64_t most = type == at::kBFloat16 ? 1 << 8 : type == at::kHalf ? 1 << 11 : 1 << 24;
  TORCH_CHECK(arguments[1].toInt() <= most, "found ", arguments[1].toInt(), " bins of ", type,
              ", expected at most ", most);
}

ArgumentCheck shapeCheckOf(llvm::StringRef name) {
  static const llvm::StringMap<ArgumentCheck> checks = {{"aten::_chunk_cat", checkChunkCat},
                                                        {"aten::_grouped_mm", checkGroupEnds},
                                                        {"aten::as_strided", checkStrided},
                                                        {"aten::as_strided_copy", checkStrided},
                                                        {"aten::as_strided_scatter", checkStrided},
                                                        {"aten::cartesian_prod", checkGrid},
                                                        {"aten::combinations", checkCombinations},
                                                        {"aten::fft_fftshift", checkShifts},
                                                        {"aten::fft_ifftshift", checkShifts},
                                                        {"aten::linalg_lstsq", checkFinite},
                                                        {"aten::histc", checkBins},
                                                        {"aten::meshgrid", checkGrid},
                                                        {"aten::roll", checkShifts}};
  return checks.lookup(name);
}

} // namespace cleave::runtime
