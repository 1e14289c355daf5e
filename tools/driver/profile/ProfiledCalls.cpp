//===- ProfiledCalls.cpp - Operands of timed calls ------------------------===//
#include "tools/driver/profile/ProfiledCalls.h"
#include <ATen/TensorIterator.h>
#include <algorithm>

namespace cleave {

using at::IValue;
using at::Tensor;
using torch::jit::Stack;

/// Converts to bfloat16 on this thread alone. OpenMP threads spin between parallel regions only if the
/// process has no more threads than cores; threads of this one would make the devices' threads sleep in
/// between.
static Tensor narrowed(const Tensor &wide) {
  constexpr int64_t kStep = at::internal::GRAIN_SIZE / 2;
  Tensor narrow = at::empty(wide.sizes(), at::kBFloat16);
  for (int64_t begin = 0; begin < wide.numel(); begin += kStep) {
    const int64_t count = std::min(kStep, wide.numel() - begin);
    narrow.narrow(0, begin, count).copy_(wide.narrow(0, begin, count));
  }
  return narrow;
}

WeightPool::WeightPool() : wide(at::rand({kElements})), narrow(narrowed(wide)) {}

Tensor WeightPool::operator()(at::IntArrayRef sizes, uint32_t rank, int64_t turn,
                              at::ScalarType dtype) const {
  const int64_t elements = c10::multiply_integers(sizes), room = kElements - elements;
  TORCH_CHECK(room >= 0, "found a weight of ", elements, " elements, expected ", kElements, " at most");
  // Ranks read different regions at the same time; regions are aligned to cache lines.
  const int64_t begin = (rank * (kElements / 4) + turn * elements) % (room + 1) / 16 * 16;
  return (dtype == at::kFloat ? wide : narrow).narrow(0, begin, elements).view(sizes);
}

/// Elementwise operators.
std::vector<OperatorCall> elementwiseCalls(const WeightPool &weights) {
  auto unary = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weights({elements}, rank, turn)};
  };
  auto binary = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weights({elements}, rank, 2 * turn), weights({elements}, rank, 2 * turn + 1)};
  };
  auto sum = [binary](int64_t elements, uint32_t rank, int64_t turn) {
    Stack stack = binary(elements, rank, turn);
    stack.emplace_back(1);
    return stack;
  };
  auto gelu = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weights({elements}, rank, turn), "tanh"};
  };
  return {{"aten.add", "aten::add.Tensor", sum},   {"aten.mul", "aten::mul.Tensor", binary},
          {"aten.relu", "aten::relu", unary},      {"aten.gelu", "aten::gelu", gelu},
          {"aten.silu", "aten::silu", unary},      {"aten.tanh", "aten::tanh", unary},
          {"aten.sigmoid", "aten::sigmoid", unary}};
}

/// Operators over rows of numbers.
std::vector<OperatorCall> rowwiseCalls(const WeightPool &weights) {
  constexpr int64_t width = 1024;
  auto rows = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    return weights({elements / width, width}, rank, turn);
  };
  auto layerNorm = [=, &weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn),
                 std::vector<int64_t>{width},
                 weights({width}, rank, 0),
                 weights({width}, rank, 1),
                 1e-5,
                 false};
  };
  auto rmsNorm = [=, &weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn), std::vector<int64_t>{width}, weights({width}, rank, 0), 1e-5};
  };
  auto softmax = [=](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn), -1, IValue()};
  };
  // Rows in another order, as of attention heads.
  auto copy = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weights({elements / width, width / 64, 64}, rank, turn).transpose(0, 1),
                 at::MemoryFormat::Contiguous};
  };
  auto join = [=](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{
        std::vector<Tensor>{rows(elements / 2, rank, 2 * turn), rows(elements / 2, rank, 2 * turn + 1)}, -1};
  };
  return {{"aten.softmax", "aten::softmax.int", softmax},
          {"aten.layer_norm", "aten::layer_norm", layerNorm},
          {"aten.rms_norm", "aten::rms_norm", rmsNorm},
          {"aten.contiguous", "aten::contiguous", copy},
          {"aten.cat", "aten::cat", join}};
}

/// Operators over channels of square images.
std::vector<OperatorCall> channelwiseCalls(const WeightPool &weights) {
  constexpr int64_t side = 32;
  auto batchNorm = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    const int64_t channels = elements / side / side;
    Stack stack{weights({1, channels, side, side}, rank, turn)};
    for (int64_t i = 0; i < 4; ++i)
      stack.emplace_back(weights({channels}, rank, i));
    stack.insert(stack.end(), {false, 0.1, 1e-5, true});
    return stack;
  };
  // Sized by the result, a quarter of the input.
  auto pool = [&weights](int64_t elements, uint32_t rank, int64_t turn) {
    const std::vector<int64_t> twice = {2, 2}, one = {1, 1};
    return Stack{weights({1, elements / side / side, 2 * side, 2 * side}, rank, turn),
                 std::vector<int64_t>{3, 3},
                 twice,
                 one,
                 one,
                 false};
  };
  return {{"aten.batch_norm", "aten::batch_norm", batchNorm}, {"aten.max_pool2d", "aten::max_pool2d", pool}};
}

Stack collectiveOperands(const WeightPool &weights, CollectiveKind kind, int64_t elements, uint32_t rank,
                         int64_t ranks) {
  const int64_t part = elements / ranks;
  std::vector<int64_t> pieces;
  for (int64_t each = 0; each < ranks; ++each)
    pieces.insert(pieces.end(), {each, 0, part});
  const std::vector<int64_t> ranges = {rank * part, part};
  switch (kind) {
  case CollectiveKind::AllReduce:
    return Stack{weights({elements}, rank, 0)};
  case CollectiveKind::AllGather:
    return Stack{weights({part}, rank, 0), 0, pieces};
  case CollectiveKind::ReduceScatter:
    return Stack{weights({elements}, rank, 0), 0, ranges};
  case CollectiveKind::AllToAll: {
    const int64_t columns = std::min<int64_t>(elements, 1024), rows = elements / columns;
    for (int64_t each = 0; each < ranks; ++each)
      pieces[3 * each + 2] = rows;
    return Stack{weights({rows, columns}, rank, 0), 0, pieces, 1,
                 std::vector<int64_t>{rank * (columns / ranks), columns / ranks}};
  }
  case CollectiveKind::Broadcast:
    return Stack{weights({elements}, rank, 0), 0};
  }
  return Stack();
}

} // namespace cleave
