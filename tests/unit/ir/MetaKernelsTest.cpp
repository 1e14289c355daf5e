// Kernels of ours for the meta device against the CPU's: shape, dtype, strides.
#include "SameTypes.h"

namespace cleave {
namespace {

using at::Tensor;

const c10::IValue kNone;

TEST(MetaKernelsTest, LayerNorm) {
  for (const Tensor &x : layoutsOf({4, 5, 6}))
    for (std::vector<int64_t> dims : {std::vector<int64_t>{6}, {5, 6}})
      expectSameTypes("aten.native_layer_norm", {x, dims, at::ones(dims), at::ones(dims), 1e-5});
}

TEST(MetaKernelsTest, IndexSelect) {
  for (at::ScalarType dtype : {at::kFloat, at::kLong})
    for (const Tensor &x : layoutsOf({4, 5, 6}, dtype))
      for (int64_t dim : {0, 1, -1})
        expectSameTypes("aten.index_select", {x, dim, at::zeros({3}, at::kLong)});
  expectSameTypes("aten.index_select", {at::zeros({}), 0, at::zeros({1}, at::kLong)});
}

TEST(MetaKernelsTest, Where) {
  for (const Tensor &condition : layoutsOf({4, 5, 6}, at::kBool))
    for (const Tensor &x : layoutsOf({4, 5, 6}))
      for (const Tensor &other : layoutsOf({5, 6}, at::kDouble))
        expectSameTypes("aten.where.self", {condition, x, other});
  expectSameTypes("aten.where.self",
                  {at::zeros({4, 1}, at::kBool), at::zeros({}, at::kLong), at::zeros({6})});
}

TEST(MetaKernelsTest, LogSumExp) {
  for (at::ScalarType dtype : {at::kFloat, at::kLong})
    for (const Tensor &x : layoutsOf({4, 5, 6}, dtype))
      for (const std::vector<int64_t> &dims : {std::vector<int64_t>{1}, {-1, 0}, {}})
        for (bool keepsDims : {false, true})
          expectSameTypes("aten.logsumexp", {x, dims, keepsDims});
}

TEST(MetaKernelsTest, SafeSoftmax) {
  for (const Tensor &x : layoutsOf({4, 5, 6})) {
    expectSameTypes("aten._safe_softmax", {x, -1, kNone});
    expectSameTypes("aten._safe_softmax", {x, 1, int64_t(at::kDouble)});
  }
  for (const Tensor &x : layoutsOf({2, 4, 5, 6}))
    expectSameTypes("aten._safe_softmax", {x, -1, kNone});
}

TEST(MetaKernelsTest, Convolution) {
  for (const Tensor &x : layoutsOf({2, 6, 9, 8}))
    for (const Tensor &weight : layoutsOf({4, 3, 3, 3}))
      for (int64_t stride : {1, 2})
        expectSameTypes("aten.conv2d", {x, weight, at::zeros({4}), std::vector<int64_t>{stride, stride},
                                        std::vector<int64_t>{1, 1}, std::vector<int64_t>{1, 1}, 2});
  for (const Tensor &x : layoutsOf({2, 6, 9}))
    expectSameTypes("aten.conv1d", {x, at::zeros({4, 6, 3}), kNone, std::vector<int64_t>{2},
                                    std::vector<int64_t>{0}, std::vector<int64_t>{2}, 1});
  for (const Tensor &x : layoutsOf({2, 6, 5, 4}))
    expectSameTypes("aten.conv_transpose2d.input",
                    {x, at::zeros({6, 2, 3, 3}), kNone, std::vector<int64_t>{2, 2},
                     std::vector<int64_t>{1, 1}, std::vector<int64_t>{1, 1}, 2, std::vector<int64_t>{1, 1}});
}

TEST(MetaKernelsTest, BatchNorm) {
  Tensor ones = at::ones({6});
  for (const std::vector<int64_t> &shape : {std::vector<int64_t>{4, 6, 5, 3}, {4, 6, 5}, {4, 6}})
    for (const Tensor &x : layoutsOf(shape))
      for (bool isTraining : {false, true})
        expectSameTypes("aten.native_batch_norm",
                        {x, ones, ones, ones.clone(), ones.clone(), isTraining, 0.1, 1e-5});
}

TEST(MetaKernelsTest, Roll) {
  using Ints = std::vector<int64_t>;
  for (const Tensor &x : layoutsOf({2, 4, 6, 8})) {
    expectSameTypes("aten.roll", {x, Ints{4}, Ints{-1}});
    expectSameTypes("aten.roll", {x, Ints{-3, 2}, Ints{1, 2}});
    expectSameTypes("aten.roll", {x, Ints{5}, Ints{}});
    expectSameTypes("aten.roll", {x, Ints{0}, Ints{0}});
  }
}

TEST(MetaKernelsTest, Attention) {
  const c10::IValue noScale = kNone;
  for (const Tensor &query : layoutsOf({2, 4, 5, 8}))
    for (const Tensor &key : layoutsOf({2, 4, 7, 8}))
      for (const c10::IValue &mask :
           {kNone, c10::IValue(at::zeros({5, 7})), c10::IValue(at::zeros({2, 1, 5, 7})),
            c10::IValue(at::zeros({5, 7}, at::kBool))})
        expectSameTypes("aten.scaled_dot_product_attention",
                        {query, key, key, mask, 0.0, false, noScale, false});
  for (const Tensor &query : layoutsOf({2, 4, 5, 8}))
    expectSameTypes("aten.scaled_dot_product_attention",
                    {query, query, query, kNone, 0.0, true, noScale, false});
  // Another width of values, other ranks, and grouped heads do not take the fused kernel.
  expectSameTypes("aten.scaled_dot_product_attention",
                  {at::zeros({2, 4, 5, 8}), at::zeros({2, 4, 7, 8}), at::zeros({2, 4, 7, 6}), kNone, 0.0,
                   false, noScale, false});
  for (const Tensor &query : layoutsOf({4, 5, 8}))
    expectSameTypes("aten.scaled_dot_product_attention",
                    {query, query, query, kNone, 0.0, false, noScale, false});
  for (const Tensor &query : layoutsOf({2, 4, 5, 8}))
    expectSameTypes(
        "aten.scaled_dot_product_attention",
        {query, at::zeros({2, 2, 7, 8}), at::zeros({2, 2, 7, 8}), kNone, 0.0, false, noScale, true});
}

} // namespace
} // namespace cleave
