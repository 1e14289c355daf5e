// Runs operators of backward passes in parts, as their rules say that they may be split, and compares with
// the whole.
#include "RuleCheck.h"
#include <gmock/gmock.h>

namespace cleave {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> operands;
  /// Factors of these kinds, of size 2 and more.
  unsigned passing = 0, composed = 0;
};

void PrintTo(const Case &value, std::ostream *out) { *out << value.name; }

class BackwardRulesTest : public testing::TestWithParam<Case> {};

TEST_P(BackwardRulesTest, SplitsAsTheRuleSays) {
  RuleCheck check(GetParam().name, GetParam().operands);
  ASSERT_TRUE(check.hasRule());
  ASSERT_NO_FATAL_FAILURE(check.checkForm());
  EXPECT_EQ(check.count(FactorKind::PassThrough), GetParam().passing);
  EXPECT_EQ(check.count(FactorKind::Composed), GetParam().composed);
  check.checkFactors();
}

const std::string kX = "tensor<4x6xf32>", kImage = "tensor<2x3x4x4xf32>";

std::vector<Case> elementwise() {
  std::vector<Case> cases;
  for (const char *name : {"tanh_backward", "sigmoid_backward", "silu_backward", "hardswish_backward",
                           "hardsigmoid_backward", "mish_backward"})
    cases.push_back({"aten." + std::string(name), {kX, kX}, 2});
  llvm::append_range(cases, std::vector<Case>{
                                {"aten.threshold_backward", {kX, kX, "0"}, 2},
                                {"aten.gelu_backward", {kX, kX, "\"tanh\""}, 2},
                                {"aten.leaky_relu_backward", {kX, kX, "0.1", "false"}, 2},
                                {"aten.hardtanh_backward", {kX, kX, "-1", "1"}, 2},
                                {"aten.elu_backward", {kX, "1.0", "1.0", "1.0", "false", kX}, 2},
                                {"aten.softplus_backward", {kX, kX, "1", "20"}, 2},
                                {"aten.log_sigmoid_backward", {kX, kX, kX}, 2},
                                {"aten.native_dropout_backward", {kX, "tensor<4x6xi1>", "2.0"}, 2},
                            });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Elementwise, BackwardRulesTest, testing::ValuesIn(elementwise()));

INSTANTIATE_TEST_SUITE_P(
    Others, BackwardRulesTest,
    testing::Values(
        Case{"aten._softmax_backward_data", {kX, kX, "-1", "6"}, 1},
        Case{"aten._safe_softmax", {kX, "-1", "none"}, 1},
        Case{"aten._log_softmax", {kX, "1", "false"}, 1, 1},
        Case{"aten._log_softmax_backward_data", {kX, kX, "1", "6"}, 1, 1},
        Case{"aten.nll_loss_forward", {kX, "tensor<4xi64>", "none", "1", "-100"}, 0, 1},
        Case{"aten.nll_loss_forward", {kX, "tensor<4xi64>", "none", "0", "2"}, 0, 1},
        Case{"aten.nll_loss_backward",
             {"tensor<f32>", kX, "tensor<4xi64>", "none", "1", "-100", "tensor<f32>"},
             0,
             1},
        Case{"aten.glu_backward", {"tensor<4x3xf32>", kX, "1"}, 1},
        Case{"aten.slice_backward", {"tensor<4x2x3xf32>", "[4, 6, 3]", "1", "1", "3", "1"}, 2},
        Case{"aten.select_backward", {"tensor<4x3xf32>", "[4, 6, 3]", "1", "2"}, 2},
        Case{"aten.native_layer_norm_backward",
             {"tensor<2x4x6xf32>", "tensor<2x4x6xf32>", "[6]", "tensor<2x4x1xf32>", "tensor<2x4x1xf32>",
              "tensor<6xf32>", "tensor<6xf32>", "[true, true, true]"},
             2},
        Case{"aten.native_batch_norm_backward",
             {kImage, kImage, "tensor<3xf32>", "none", "none", "tensor<3xf32>", "tensor<3xf32>", "true",
              "0.00001", "[true, true, true]"},
             1},
        // Batch, channels of input and result; in groups, these too.
        Case{"aten.convolution_backward",
             {"tensor<2x5x3x3xf32>", kImage, "tensor<5x3x2x2xf32>", "[5]", "[1, 1]", "[0, 0]", "[1, 1]",
              "false", "[0, 0]", "1", "[true, true, true]"},
             3},
        Case{"aten.convolution_backward",
             {"tensor<2x6x3x3xf32>", "tensor<2x4x4x4xf32>", "tensor<6x2x2x2xf32>", "[6]", "[1, 1]", "[0, 0]",
              "[1, 1]", "false", "[0, 0]", "2", "[true, true, true]"},
             4},
        Case{"aten.convolution_backward",
             {"tensor<2x5x5x5xf32>", kImage, "tensor<3x5x2x2xf32>", "[5]", "[1, 1]", "[0, 0]", "[1, 1]",
              "true", "[0, 0]", "1", "[true, true, true]"},
             3},
        Case{"aten.embedding_dense_backward",
             {"tensor<2x5x6xf32>", "tensor<2x5xi64>", "8", "-1", "false"},
             1,
             1},
        Case{"aten.embedding_dense_backward", {"tensor<2x5x6xf32>", "tensor<2x5xi64>", "8", "1", "true"}, 1},
        Case{"aten.max_pool2d_with_indices_backward",
             {"tensor<2x3x2x2xf32>", kImage, "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "false",
              "tensor<2x3x2x2xi64>"},
             2},
        Case{"aten.avg_pool2d_backward",
             {"tensor<2x3x2x2xf32>", kImage, "[2, 2]", "[2, 2]", "[0, 0]", "false", "true", "none"},
             2},
        Case{"aten._adaptive_avg_pool2d_backward", {"tensor<2x3x1x1xf32>", kImage}, 2},
        Case{"aten.upsample_nearest2d_backward",
             {"tensor<2x3x8x8xf32>", "[8, 8]", "[2, 3, 4, 4]", "none", "none"},
             2},
        Case{"aten._scaled_dot_product_flash_attention_for_cpu",
             {"tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "0.0", "true", "none",
              "none"},
             2},
        Case{"aten._scaled_dot_product_flash_attention_for_cpu",
             {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x8xf32>", "0.0", "false",
              "tensor<2x1x5x7xf32>", "none"},
             2},
        Case{"aten._scaled_dot_product_flash_attention_for_cpu_backward",
             {"tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>",
              "tensor<2x4x5x8xf32>", "tensor<2x4x5xf32>", "0.0", "true", "none", "none"},
             2},
        Case{"aten._scaled_dot_product_flash_attention_for_cpu",
             {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x8xf32>", "0.0", "false",
              "tensor<2x4x5x7xf32>", "none"},
             2},
        // Of two key heads for four query heads: batch, key heads, and query heads of each, which only stay
        // together in the backward pass.
        Case{"aten._scaled_dot_product_flash_attention_for_cpu",
             {"tensor<2x4x5x8xf32>", "tensor<2x2x5x8xf32>", "tensor<2x2x5x8xf32>", "0.0", "true", "none",
              "none"},
             4},
        Case{"aten._scaled_dot_product_flash_attention_for_cpu_backward",
             {"tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "tensor<2x2x5x8xf32>", "tensor<2x2x5x8xf32>",
              "tensor<2x4x5x8xf32>", "tensor<2x4x5xf32>", "0.0", "true", "none", "none"},
             2}));

} // namespace
} // namespace cleave
