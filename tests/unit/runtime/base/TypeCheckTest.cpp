//===- TypeCheckTest.cpp - Holding values to what the plan predicts -------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>

namespace cleave::runtime {

using plan::DType;

/// `y = t(x)` with `x : float32[n, 3]`, of module `net`.
class TypeCheckTest : public PlanTest {
protected:
  /// What running on `x` fails with when `predicted` is the type of the result.
  std::string failure(const plan::TensorType &predicted, const at::Tensor &x) {
    PlanWriter writer({0});
    writer.symbol("n", 2);
    writer.input("x", tensorType(DType::Float, {-1, 3}));
    uint32_t result = writer.stage(0).call("aten::t", {writer.stage(0).input(0)}, "net");
    writer.stage(0).predict(result, predicted);
    writer.stage(0).output(result);
    writer.output("y", 0, 0);
    SessionOptions options;
    options.checkTypes = true;
    return failureOf(open(writer, options)->run({x}));
  }
  static plan::TensorType withStrides(plan::TensorType type, std::vector<int64_t> strides) {
    for (int64_t stride : strides)
      type.strides.push_back(std::make_unique<plan::DimExpr>(plan::constantDim(stride)));
    return type;
  }
};

TEST_F(TypeCheckTest, AcceptsWhatWasPredicted) {
  plan::TensorType unknown;
  EXPECT_EQ(failure(tensorType(DType::Float, {3, -1}), at::ones({4, 3})), "");
  EXPECT_EQ(failure(withStrides(tensorType(DType::Float, {3, -1}), {1, 3}), at::ones({4, 3})), "");
  EXPECT_EQ(failure(unknown, at::ones({4, 3})), "");
}

TEST_F(TypeCheckTest, IgnoresStridesThatNothingStepsOver) {
  EXPECT_EQ(failure(withStrides(tensorType(DType::Float, {3, -1}), {1, 77}), at::ones({1, 3})), "");
}

TEST_F(TypeCheckTest, ReportsOtherTypes) {
  EXPECT_EQ(failure(tensorType(DType::Int64, {3, -1}), at::ones({4, 3})),
            "rank 0 (stage 0): net: aten::t: the plan predicts int64[3, n], found float32[3, 4]");
  EXPECT_EQ(failure(tensorType(DType::Float, {-1, 3}), at::ones({4, 3})),
            "rank 0 (stage 0): net: aten::t: the plan predicts float32[n, 3], found float32[3, 4]");
  EXPECT_EQ(failure(withStrides(tensorType(DType::Float, {3, -1}), {1, 4}), at::ones({4, 3})),
            "rank 0 (stage 0): net: aten::t: the plan predicts float32[3, n] with strides [1, 4], found "
            "float32[3, 4] with strides [1, 3]");
}

} // namespace cleave::runtime
