//===- OperatorNameTest.cpp -----------------------------------------------===//
#include "codegen/plan/OperatorName.h"
#include <gtest/gtest.h>

namespace cleave::plan {

TEST(OperatorName, HasANamespaceANameAndPerhapsAnOverload) {
  EXPECT_TRUE(isOperatorName("aten::add.Tensor"));
  EXPECT_TRUE(isOperatorName("aten::__and__"));
  for (const char *name : {"", "add", "aten::", "::add", "aten::add.", "aten::add.a.b", "aten:add",
                           "aten::a::b", "aten::add Tensor", "aten::add\n"})
    EXPECT_FALSE(isOperatorName(name)) << name;
}

TEST(OperatorName, ListsWhatComputes) {
  for (const char *name :
       {"aten::linear", "aten::Int.Tensor", "aten::_unsafe_view", "prim::NumToTensor.Scalar",
        "prim::RaiseException", "prim::device", "quantized::linear", "spmd::all_reduce"})
    EXPECT_TRUE(isOperatorListed(name)) << name;
}

TEST(OperatorName, ListsNothingThatReachesBeyondItsTensors) {
  for (const char *name :
       {"aten::from_file", "aten::save", "aten::warn", "aten::set_.source_Storage", "aten::to_here",
        "aten::_sparse_coo_tensor_unsafe", "prim::Print", "prim::PythonOp", "prim::fork", "image::read_file",
        "inductor::_reinterpret_tensor", "c10d::send", "aten::_reshape_alias", "aten::segment_reduce",
        "aten::_ctc_loss", "aten::_sparse_coo_tensor_with_dims_and_tensors", "torchvision::nms",
        "aten::linear.no_overload"})
    EXPECT_FALSE(isOperatorListed(name)) << name;
}

TEST(OperatorName, KnowsTheNamespacesOfTheList) {
  EXPECT_TRUE(isOfListedNamespace("aten::from_file"));
  EXPECT_TRUE(isOfListedNamespace("quantized::nothing"));
  EXPECT_FALSE(isOfListedNamespace("torchvision::nms"));
  EXPECT_FALSE(isOfListedNamespace("zzz::nms"));
}

} // namespace cleave::plan
