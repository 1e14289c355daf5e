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

TEST(OperatorName, AllowsWhatComputes) {
  for (const char *name : {"aten::linear", "aten::Int.Tensor", "aten::_assert_async", "aten::_unsafe_view",
                           "prim::NumToTensor.Scalar", "prim::RaiseException", "prim::device",
                           "quantized::linear", "torchvision::nms"})
    EXPECT_TRUE(isOperatorAllowed(name)) << name;
}

TEST(OperatorName, RefusesFilesTerminalProcessesAndUncheckedMemory) {
  for (const char *name :
       {"aten::from_file", "aten::save", "aten::warn", "aten::set_.source_Storage", "aten::to_here",
        "aten::_sparse_coo_tensor_unsafe", "prim::Print", "prim::PythonOp", "prim::fork", "image::read_file",
        "inductor::_reinterpret_tensor", "c10d::send", "not an operator"})
    EXPECT_FALSE(isOperatorAllowed(name)) << name;
}

} // namespace cleave::plan
