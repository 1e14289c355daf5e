//===- TensorParallelTest.cpp - Plans whose weights ranks share -----------===//
#include "codegen/plan/DimExpr.h"
#include "runtime/Session.h"
#include "tests/unit/runtime/TestModels.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

class TensorParallelTest : public PlanTest {};

namespace {
/// `y = linear(relu(linear(x, w0, b0)), w1, b1)` with `x : float32[batch, 8]` and 4 outputs: the first layer split by its
/// rows, the second one by its columns, the partial products added. On `places` places the first layer is one stage and the
/// second another.
struct SplitLayers {
  SplitLayers(uint32_t tp, uint32_t places);
  at::Tensor expected(const at::Tensor &x) const {
    return at::linear(at::relu(at::linear(x, firstWeight, firstBias)), secondWeight) + secondBias;
  }
  /// Of the 18 values between the layers, in parts that are not all of one size.
  static std::vector<int64_t> rangeOf(uint32_t rank, uint32_t tp) {
    const int64_t begin = rank * 18 / tp;
    return {begin, (rank + 1) * 18 / tp - begin};
  }

  at::Tensor firstWeight = at::randn({18, 8}), firstBias = at::randn({18});
  at::Tensor secondWeight = at::randn({4, 18}), secondBias = at::randn({4});
  PlanWriter writer;
};
} // namespace

SplitLayers::SplitLayers(uint32_t tp, uint32_t places) : writer(places == 1 ? Slots{0} : Slots{0, 1}, tp) {
  writer.symbol("batch", 4);
  writer.input("x", tensorType(DType::Float, {-1, 8}));
  for (uint32_t rank = 0; rank < tp; ++rank) {
    StageWriter &first = writer.stage(0, rank), &second = writer.stage(places - 1, rank);
    const std::vector<int64_t> range = rangeOf(rank, tp);
    const uint32_t x = first.input(0), weight = first.shard("0.weight", firstWeight, 0, range);
    const uint32_t product = first.call("aten::linear", {x, weight, first.shard("0.bias", firstBias, 0, range)}, "0");
    uint32_t hidden = first.call("aten::relu", {product}, "0");
    if (places == 2) {
      first.output(hidden);
      hidden = second.receive(0, 0);
    }
    const uint32_t columns = second.shard("1.weight", secondWeight, 1, range);
    const uint32_t part = second.call("aten::linear", {hidden, columns, second.constant(none())}, "1");
    const uint32_t sum = second.call("spmd::all_reduce", {part}, "1");
    second.output(second.call("aten::add.Tensor", {sum, second.weight("1.bias", secondBias), second.constant(integer(1))}, "1"));
  }
  writer.output("y", places - 1, 0);
}

TEST_F(TensorParallelTest, GivesWhatTorchGives) {
  for (uint32_t places : {1, 2})
    for (uint32_t tp : {2, 3, 4}) {
      SplitLayers model(tp, places);
      auto session = open(model.writer);
      for (int64_t batch : {1, 4, 9}) {
        const at::Tensor x = at::randn({batch, 8});
        auto outputs = session->run({x});
        ASSERT_EQ(failureOf(outputs.takeError()), "");
      }
      const at::Tensor x = at::randn({5, 8});
      const at::Tensor y = llvm::cantFail(session->run({x}))[0];
      EXPECT_TRUE(at::allclose(y, model.expected(x), 1e-5, 1e-5)) << places << " places, tp " << tp;
      for (int i = 0; i < 20; ++i)
        EXPECT_TRUE(at::equal(llvm::cantFail(session->run({x}))[0], y)) << "the same bits each time";
      llvm::sys::fs::remove_directories(path("a.plan"));
    }
}
} // namespace cleave::runtime
