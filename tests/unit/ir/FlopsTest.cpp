// The cost of operators against closed formulas.
#include "OperatorCall.h"
#include "ir/semantics/OpSemantics.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

OpWork workOf(const std::string &name, const std::vector<std::string> &operands) {
  OperatorCall call(name, operands);
  return workOf(call.op().getOperation(), call.shapes());
}

double flopsOf(const std::string &name, const std::vector<std::string> &operands) {
  return workOf(name, operands).flops;
}

TEST(FlopsTest, CountsTwoAProduct) {
  EXPECT_EQ(flopsOf("aten.linear", {"tensor<4x3x6xf32>", "tensor<5x6xf32>", "none"}), 2 * 4 * 3 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.mm", {"tensor<4x6xf32>", "tensor<6x5xf32>"}), 2 * 4 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.bmm", {"tensor<2x4x6xf32>", "tensor<2x6x5xf32>"}), 2 * 2 * 4 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.addmm", {"tensor<5xf32>", "tensor<4x6xf32>", "tensor<6x5xf32>", "1", "1"}),
            2 * 4 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.baddbmm", {"tensor<5xf32>", "tensor<2x4x6xf32>", "tensor<2x6x5xf32>", "1", "1"}),
            2 * 2 * 4 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.matmul", {"tensor<6xf32>", "tensor<6xf32>"}), 2 * 6);
  EXPECT_EQ(flopsOf("aten.matmul", {"tensor<6xf32>", "tensor<3x6x5xf32>"}), 2 * 3 * 6 * 5);
  EXPECT_EQ(flopsOf("aten.matmul", {"tensor<3x4x6xf32>", "tensor<6xf32>"}), 2 * 3 * 4 * 6);
  EXPECT_EQ(flopsOf("aten.matmul", {"tensor<2x1x4x6xf32>", "tensor<3x6x5xf32>"}), 2 * 2 * 3 * 4 * 6 * 5);
}

TEST(FlopsTest, CountsATapOfAConvolution) {
  // 9 x 8 places, 3 of the input's channels an output channel, 3 x 3 taps.
  EXPECT_EQ(flopsOf("aten.conv2d", {"tensor<4x6x9x8xf32>", "tensor<2x3x3x3xf32>", "none", "[1, 1]", "[1, 1]",
                                    "[1, 1]", "2"}),
            2 * 4 * 2 * (9 * 8) * 3 * 9);
  EXPECT_EQ(
      flopsOf("aten.conv1d", {"tensor<4x6x9xf32>", "tensor<2x6x3xf32>", "none", "[2]", "[1]", "[1]", "1"}),
      2 * 4 * 2 * 5 * 6 * 3);
  // Transposed: every element of the input goes to 2 channels, 3 x 3 places.
  double transposed = 2 * 4 * 6 * (5 * 5) * 2 * 9;
  EXPECT_EQ(flopsOf("aten.conv_transpose2d.input", {"tensor<4x6x5x5xf32>", "tensor<6x2x3x3xf32>", "none",
                                                    "[2, 2]", "[1, 1]", "[0, 0]", "1", "[1, 1]"}),
            transposed);
  EXPECT_EQ(
      flopsOf("aten._convolution", {"tensor<4x6x5x5xf32>", "tensor<6x2x3x3xf32>", "none", "[2, 2]", "[1, 1]",
                                    "[1, 1]", "true", "[0, 0]", "1", "false", "false", "true", "true"}),
      transposed);
}

TEST(FlopsTest, CountsBothProductsOfAttention) {
  // 5 queries by 7 keys, of width 8 and then 6, in 2 x 4 heads.
  EXPECT_EQ(flopsOf("aten.scaled_dot_product_attention",
                    {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x6xf32>", "none", "0.0",
                     "false", "none", "false"}),
            2 * 2 * 4 * 5 * 7 * (8 + 6));
}

TEST(FlopsTest, CountsOneAnElementWhereNothingIsSaid) {
  EXPECT_EQ(flopsOf("aten.add.Tensor", {"tensor<4x6xf32>", "tensor<6xf32>", "1"}), 24);
  EXPECT_EQ(flopsOf("aten.sum", {"tensor<4x6xf32>", "none"}), 24);
  EXPECT_EQ(flopsOf("aten.tril", {"tensor<4x6xf32>", "0"}), 24);
}

TEST(FlopsTest, CountsBytesReadAndWritten) {
  EXPECT_EQ(workOf("aten.add.Tensor", {"tensor<4x6xf32>", "tensor<6xf32>", "1"}).bytes, 4 * (24 + 6 + 24));
  EXPECT_EQ(workOf("aten.isnan", {"tensor<4x6xf64>"}).bytes, 8 * 24 + 24);
  // A lookup reads the rows that it needs, not the table.
  EXPECT_EQ(workOf("aten.embedding", {"tensor<9000x6xf32>", "tensor<4xi64>", "-1", "false", "false"}).bytes,
            4 * 24 + 8 * 4 + 4 * 24);
}

/// As `kind: count x rows x columns x depth`; nothing where there is none.
std::string gemmOf(const std::string &name, const std::vector<std::string> &operands) {
  OperatorCall call(name, operands);
  auto gemm = semanticsOf(call.op().getName()).gemm;
  auto shape = gemm ? gemm(call.op(), call.shapes()) : std::nullopt;
  if (!shape)
    return "";
  EXPECT_EQ(workOf(call.op().getOperation(), call.shapes()).flops,
            (shape->kind == GemmKind::Attention ? 4 : 2) * shape->count * shape->rows * shape->columns *
                shape->depth);
  return llvm::formatv("{0}: {1:f0} x {2:f0} x {3:f0} x {4:f0}", kGemmKinds[size_t(shape->kind)],
                       shape->count, shape->rows, shape->columns, shape->depth);
}

TEST(FlopsTest, KnowsTheShapesOfGemms) {
  EXPECT_EQ(gemmOf("aten.linear", {"tensor<4x3x6xf32>", "tensor<5x6xf32>", "none"}),
            "matrix: 1 x 12 x 5 x 6");
  EXPECT_EQ(gemmOf("aten.addmm", {"tensor<5xf32>", "tensor<4x6xf32>", "tensor<6x5xf32>", "1", "1"}),
            "matrix: 1 x 4 x 5 x 6");
  EXPECT_EQ(gemmOf("aten.bmm", {"tensor<2x4x6xf32>", "tensor<2x6x5xf32>"}), "matrix: 2 x 4 x 5 x 6");
  EXPECT_EQ(gemmOf("aten.matmul", {"tensor<2x1x4x6xf32>", "tensor<3x6x5xf32>"}), "matrix: 6 x 4 x 5 x 6");
  EXPECT_EQ(gemmOf("aten.matmul", {"tensor<6xf32>", "tensor<3x6x5xf32>"}), "");
  EXPECT_EQ(gemmOf("aten.conv2d",
                   {"tensor<4x6x9x8xf32>", "tensor<2x6x1x1xf32>", "none", "[1, 1]", "[0, 0]", "[1, 1]", "1"}),
            "pointwise: 4 x 72 x 2 x 6");
  EXPECT_EQ(gemmOf("aten.conv2d",
                   {"tensor<4x6x9x8xf32>", "tensor<2x3x3x3xf32>", "none", "[1, 1]", "[1, 1]", "[1, 1]", "2"}),
            "convolution: 8 x 72 x 1 x 27");
  EXPECT_EQ(gemmOf("aten.conv2d",
                   {"tensor<4x6x8x8xf32>", "tensor<2x6x1x1xf32>", "none", "[2, 2]", "[0, 0]", "[1, 1]", "1"}),
            "strided: 4 x 16 x 2 x 6");
  EXPECT_EQ(gemmOf("aten.scaled_dot_product_attention",
                   {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x8xf32>", "none", "0.0",
                    "false", "none", "false"}),
            "attention: 8 x 5 x 7 x 8");
  EXPECT_EQ(gemmOf("aten.relu", {"tensor<4x6xf32>"}), "");
}

TEST(FlopsTest, CountsNothingForViews) {
  OpWork work = workOf("aten.t", {"tensor<4x6xf32>"});
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 0);
}

} // namespace
} // namespace cleave
