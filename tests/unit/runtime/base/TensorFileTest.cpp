//===- TensorFileTest.cpp - Tensors from and to files ---------------------===//
#include "runtime/base/TensorFile.h"
#include "runtime/base/DTypes.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>

namespace cleave::runtime {

class TensorFileTest : public PlanTest {};

static at::Tensor find(llvm::ArrayRef<NamedTensor> tensors, llvm::StringRef name) {
  auto found = llvm::find_if(tensors, [&](const NamedTensor &tensor) { return tensor.name == name; });
  return found == tensors.end() ? at::Tensor() : found->tensor;
}

TEST_F(TensorFileTest, GivesBackWhatWasWritten) {
  std::vector<NamedTensor> written = {{"floats", at::randn({3, 5})},
                                      {"transposed", at::randn({3, 5}).t()},
                                      {"scalar", at::scalar_tensor(7, at::kLong)},
                                      {"empty", at::empty({0, 4})},
                                      {"flags", at::randn({5}) > 0},
                                      {"halves", at::randn({7}).to(at::kBFloat16)}};
  ASSERT_EQ(failureOf(writeTensors(path("t.safetensors"), written)), "");
  auto read = llvm::cantFail(readTensors(path("t.safetensors")));
  ASSERT_EQ(read.size(), written.size());
  for (const NamedTensor &tensor : written) {
    EXPECT_EQ(find(read, tensor.name).scalar_type(), tensor.tensor.scalar_type()) << tensor.name;
    EXPECT_TRUE(at::equal(find(read, tensor.name), tensor.tensor)) << tensor.name;
  }
}

TEST_F(TensorFileTest, TensorsOutliveTheirFile) {
  at::Tensor original = at::randn({100});
  ASSERT_EQ(failureOf(writeTensors(path("t.safetensors"), {{"a", original}})), "");
  at::Tensor read = llvm::cantFail(readTensors(path("t.safetensors")))[0].tensor;
  llvm::sys::fs::remove(path("t.safetensors"));
  EXPECT_TRUE(at::equal(read, original));
}

TEST_F(TensorFileTest, WritesNothingWhereItCannot) {
  EXPECT_NE(failureOf(writeTensors(path("no/such/folder.safetensors"), {{"a", at::ones({1})}})), "");
  EXPECT_EQ(failureOf(writeTensors(path("t.safetensors"), {{"a", at::zeros({1}, at::kUInt16)}})),
            "tensor a: UInt16 has no place in a safetensors file");
  EXPECT_FALSE(llvm::sys::fs::exists(path("t.safetensors")));
}

TEST_F(TensorFileTest, EveryElementTypeHasItsCounterpart) {
  for (auto dtype = uint8_t(plan::DType::MIN) + 1; dtype <= uint8_t(plan::DType::MAX); ++dtype) {
    auto type = scalarTypeOf(plan::DType(dtype));
    ASSERT_TRUE(type.has_value());
    EXPECT_EQ(dtypeOf(*type), plan::DType(dtype));
    EXPECT_EQ(int64_t(c10::elementSize(*type)), plan::bytesOf(plan::DType(dtype)));
  }
  EXPECT_FALSE(scalarTypeOf(plan::DType::Unknown).has_value());
}

} // namespace cleave::runtime
