//===- ProfiledCalls.h - Operands of calls that are timed -------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H

#include "ir/semantics/KernelKinds.h"
#include <ATen/ATen.h>
#include <ATen/core/stack.h>
#include <functional>
#include <vector>

namespace cleave {

/// Numbers to take tensors from, more than caches hold, in float32 and bfloat16.
class WeightPool {
public:
  static constexpr int64_t kElements = 64 << 20;

  WeightPool();
  /// Values in this shape; other ones each turn, so that they come from memory as weights do, and for each
  /// rank.
  at::Tensor operator()(at::IntArrayRef sizes, uint32_t rank, int64_t turn,
                        at::ScalarType dtype = at::kFloat) const;

private:
  const at::Tensor wide, narrow;
};

/// An operator that is measured by the bytes that it reads and writes.
struct OperatorCall {
  /// Operands of one whose result has so many elements; `rank` and `turn` say where they lie.
  using Make = std::function<torch::jit::Stack(int64_t elements, uint32_t rank, int64_t turn)>;
  /// As programs call it, and as libtorch does.
  const char *name, *kernel;
  Make make;
};

/// Element by element, of any shape. The pool outlives them.
std::vector<OperatorCall> elementwiseCalls(const WeightPool &weights);

/// By rows of numbers. The pool outlives them.
std::vector<OperatorCall> rowwiseCalls(const WeightPool &weights);

/// By channels of square images. The pool outlives them.
std::vector<OperatorCall> channelwiseCalls(const WeightPool &weights);

/// Of a collective over `ranks` ranks, of a tensor that has `elements` as a whole: what `rank` gives.
torch::jit::Stack collectiveOperands(const WeightPool &weights, CollectiveKind kind, int64_t elements,
                                     uint32_t rank, int64_t ranks);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_PROFILEDCALLS_H
