//===- ProfiledCalls.h - Operands of timed calls ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H

#include "ir/semantics/KernelKinds.h"
#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <functional>
#include <vector>

namespace cleave {

/// A pool of numbers larger than any cache, in float32 and bfloat16, from which tensors are taken.
class WeightPool {
public:
  static constexpr int64_t kElements = 64 << 20;

  WeightPool();
  /// A tensor of this shape. Each (rank, turn) reads a different region, so operands are never in cache.
  at::Tensor operator()(at::IntArrayRef sizes, uint32_t rank, int64_t turn,
                        at::ScalarType dtype = at::kFloat) const;

private:
  const at::Tensor wide, narrow;
};

/// An operator that is measured by the bytes that it reads and writes.
struct OperatorCall {
  /// Makes operands for a result of `elements` elements; `rank` and `turn` select their region of the pool.
  using Make = std::function<torch::jit::Stack(int64_t elements, uint32_t rank, int64_t turn)>;
  /// The operator's name in programs, and its kernel in libtorch.
  const char *name, *kernel;
  Make make;
};

/// Elementwise operators. The pool must outlive them.
std::vector<OperatorCall> elementwiseCalls(const WeightPool &weights);

/// Operators over rows (such as softmax). The pool must outlive them.
std::vector<OperatorCall> rowwiseCalls(const WeightPool &weights);

/// Operators over the channels of square images. The pool must outlive them.
std::vector<OperatorCall> channelwiseCalls(const WeightPool &weights);

/// Operands of `rank` for a collective over `ranks` ranks, on a tensor of `elements` elements in total.
torch::jit::Stack collectiveOperands(const WeightPool &weights, CollectiveKind kind, int64_t elements,
                                     uint32_t rank, int64_t ranks);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H
