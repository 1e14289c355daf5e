// Runs operators in parts, as their rules say that they may be split, and compares with the whole.
#include "RuleCheck.h"
#include <gmock/gmock.h>

namespace cleave {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> operands;
  /// Sums of parts give the whole along Reduce factors.
  bool sums = false;
};

void PrintTo(const Case &value, std::ostream *out) {
  *out << value.name << "(";
  for (const std::string &operand : value.operands)
    *out << " " << operand;
  *out << " )";
}

class OperatorRulesTest : public testing::TestWithParam<Case> {};

TEST_P(OperatorRulesTest, SplitsAsTheRuleSays) {
  RuleCheck check(GetParam().name, GetParam().operands);
  ASSERT_TRUE(check.hasRule());
  EXPECT_TRUE(semanticsOf(GetParam().name).isSumOverReduceFactors || !GetParam().sums);
  ASSERT_NO_FATAL_FAILURE(check.checkForm());
  check.checkFactors();
}

const std::string kX = "tensor<4x6xf32>";

std::vector<Case> elementwise() {
  std::vector<Case> cases;
  for (const char *name :
       {"abs",         "neg",         "relu",   "relu6",     "floor",       "ceil",  "round",   "trunc",
        "sign",        "reciprocal",  "square", "hardswish", "hardsigmoid", "isnan", "isinf",   "isfinite",
        "logical_not", "exp",         "exp2",   "expm1",     "log",         "log2",  "log10",   "log1p",
        "sqrt",        "rsqrt",       "sin",    "cos",       "tan",         "tanh",  "sigmoid", "silu",
        "selu",        "mish",        "erf",    "erfinv",    "atan",        "asin",  "acos",    "sinh",
        "cosh",        "log_sigmoid", "angle",  "zero",      "detach",      "alias"})
    cases.push_back({"aten." + std::string(name), {kX}});
  for (const char *name : {"mul.Tensor", "maximum", "minimum", "eq.Tensor", "lt.Tensor", "fmod.Tensor",
                           "floor_divide", "remainder.Tensor", "logical_and", "logical_or", "div.Tensor",
                           "true_divide.Tensor", "pow.Tensor_Tensor", "atan2", "logaddexp", "copy"})
    for (const char *other : {"tensor<4x6xf32>", "tensor<6xf32>", "tensor<4x1xf32>", "tensor<f32>"}) {
      cases.push_back({"aten." + std::string(name), {kX, other}});
      if (name == std::string("copy"))
        cases.back().operands.push_back("false");
    }
  llvm::append_range(cases, std::vector<Case>{
                                {"aten.add.Tensor", {"tensor<5x1x6xf32>", "tensor<4x1xf32>", "2"}},
                                {"aten.sub.Scalar", {kX, "3", "1"}},
                                {"aten.where.self", {"tensor<6xi1>", kX, "tensor<4x1xf32>"}},
                                {"aten.masked_fill.Scalar", {kX, "tensor<4x1xi1>", "0.5"}},
                                {"aten.clamp", {kX, "-1", "none"}},
                                {"aten.clamp_min", {kX, "0"}},
                                {"aten.lerp.Tensor", {kX, "tensor<6xf32>", "tensor<4x1xf32>"}},
                                {"aten.addcmul", {kX, "tensor<6xf32>", "tensor<4x1xf32>", "2"}},
                                {"aten.gelu", {kX, "\"tanh\""}},
                                {"aten.leaky_relu", {kX, "0.1"}},
                                {"aten.elu", {kX, "1.0", "1.0", "1.0"}},
                                {"aten.softplus", {kX, "1", "20"}},
                                {"aten.dropout", {kX, "0.5", "false"}},
                                {"aten.type_as", {kX, "tensor<4x6xf64>"}},
                                {"aten.bitwise_and.Tensor", {"tensor<4x6xi64>", "tensor<6xi64>"}},
                                {"aten.complex", {kX, "tensor<6xf32>"}},
                                {"aten.zeros_like", {kX, "none", "none", "none", "none", "none"}},
                                {"aten.to.dtype", {kX, "7", "false", "false", "none"}},
                                {"aten.contiguous", {kX, "0"}},
                            });
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Elementwise, OperatorRulesTest, testing::ValuesIn(elementwise()));

INSTANTIATE_TEST_SUITE_P(
    Products, OperatorRulesTest,
    testing::Values(
        Case{"aten.linear", {"tensor<4x3x6xf32>", "tensor<5x6xf32>", "none"}, true},
        Case{"aten.linear", {"tensor<4x3x6xf32>", "tensor<5x6xf32>", "tensor<5xf32>"}, true},
        Case{"aten.linear", {"tensor<6xf32>", "tensor<5x6xf32>", "none"}, true},
        Case{"aten.mm", {"tensor<4x6xf32>", "tensor<6x5xf32>"}, true},
        Case{"aten.bmm", {"tensor<2x4x6xf32>", "tensor<2x6x5xf32>"}, true},
        Case{"aten.matmul", {"tensor<4x6xf32>", "tensor<6x5xf32>"}, true},
        Case{"aten.matmul", {"tensor<6xf32>", "tensor<6xf32>"}, true},
        Case{"aten.matmul", {"tensor<3x4x6xf32>", "tensor<6xf32>"}, true},
        Case{"aten.matmul", {"tensor<6xf32>", "tensor<3x6x5xf32>"}, true},
        Case{"aten.matmul", {"tensor<2x1x4x6xf32>", "tensor<3x6x5xf32>"}, true},
        Case{"aten.matmul", {"tensor<2x3x4x6xf32>", "tensor<2x3x6x5xf32>"}, true},
        Case{"aten.addmm", {"tensor<5xf32>", "tensor<4x6xf32>", "tensor<6x5xf32>", "1", "1"}, true},
        Case{"aten.addmm", {"tensor<4x5xf32>", "tensor<4x6xf32>", "tensor<6x5xf32>", "1", "1"}, true},
        Case{"aten.addmm", {"tensor<4x1xf32>", "tensor<4x6xf32>", "tensor<6x5xf32>", "1", "1"}, true},
        Case{"aten.baddbmm", {"tensor<2x4x5xf32>", "tensor<2x4x6xf32>", "tensor<2x6x5xf32>", "1", "1"}, true},
        Case{"aten.baddbmm", {"tensor<4x5xf32>", "tensor<2x4x6xf32>", "tensor<2x6x5xf32>", "1", "1"}, true},
        Case{"aten.baddbmm", {"tensor<5xf32>", "tensor<2x4x6xf32>", "tensor<2x6x5xf32>", "1", "1"}, true},
        Case{"aten.einsum",
             {"\"bhid, bhjd -> bhij\"", "(tensor<2x3x4x6xf32>; tensor<2x3x5x6xf32>)", "none"},
             true},
        Case{"aten.einsum", {"\"ij,jk->ki\"", "(tensor<4x6xf32>; tensor<6x5xf32>)", "none"}, true},
        Case{"aten.conv1d", {"tensor<4x6x9xf32>", "tensor<2x6x3xf32>", "none", "[1]", "[1]", "[1]", "1"}},
        Case{"aten.conv2d",
             {"tensor<4x6x9x8xf32>", "tensor<2x3x3x3xf32>", "tensor<2xf32>", "[2, 1]", "[1, 1]", "[1, 1]",
              "2"}},
        Case{"aten.conv_transpose2d.input",
             {"tensor<4x6x5x5xf32>", "tensor<6x2x3x3xf32>", "none", "[2, 2]", "[1, 1]", "[0, 0]", "1",
              "[1, 1]"}}));

std::vector<Case> attention() {
  std::vector<Case> cases;
  for (const char *mask :
       {"none", "tensor<5x7xf32>", "tensor<2x1x5x7xf32>", "tensor<2x4x5x7xf32>", "tensor<1x4x1x7xf32>"})
    cases.push_back({"aten.scaled_dot_product_attention",
                     {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x6xf32>", mask, "0.0",
                      "false", "none", "false"}});
  cases.push_back({"aten.scaled_dot_product_attention",
                   {"tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "tensor<2x4x5x8xf32>", "none", "0.0",
                    "true", "none", "false"}});
  cases.push_back({"aten.scaled_dot_product_attention",
                   {"tensor<4x5x8xf32>", "tensor<4x7x8xf32>", "tensor<4x7x8xf32>", "none", "0.0", "false",
                    "none", "false"}});
  for (const char *mask : {"none", "tensor<5x7xf32>", "tensor<2x1x5x7xf32>"})
    cases.push_back({"aten.scaled_dot_product_attention",
                     {"tensor<2x4x5x8xf32>", "tensor<2x2x7x8xf32>", "tensor<2x2x7x8xf32>", mask, "0.0",
                      "false", "none", "true"}});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Attention, OperatorRulesTest, testing::ValuesIn(attention()));

std::vector<Case> reductions() {
  const std::string x = "tensor<4x5x6xf32>";
  std::vector<Case> cases{
      {"aten.sum", {x, "none"}, true},
      {"aten.sum.dim_IntList", {x, "[1]", "false", "none"}, true},
      {"aten.sum.dim_IntList", {x, "[-1, 0]", "true", "none"}, true},
      {"aten.sum.dim_IntList", {x, "none", "false", "none"}, true},
      {"aten.sum.dim_IntList", {x, "[]", "false", "none"}, true},
      {"aten.mean.dim", {x, "[1, 2]", "true", "none"}, true},
      {"aten.mean", {x, "none"}, true},
      {"aten.amax", {x, "[]", "false"}},
      {"aten.amin", {x, "[2]", "false"}},
      {"aten.prod.dim_int", {x, "1", "false", "none"}},
      {"aten.max", {x}},
      {"aten.max.dim", {x, "1", "true"}},
      {"aten.min.dim", {x, "1", "false"}},
      {"aten.max.other", {x, "tensor<5x6xf32>"}},
      {"aten.min.other", {x, "tensor<5x1xf32>"}},
      {"aten.argmax", {x, "1", "false"}},
      {"aten.argmax", {x, "none", "false"}},
      {"aten.all.dim", {"tensor<4x5xi1>", "1", "false"}},
      {"aten.any", {"tensor<4x5xi1>"}},
      {"aten.var.correction", {x, "[1]", "1", "true"}},
      {"aten.std.dim", {x, "[1]", "true", "false"}},
      {"aten.linalg_vector_norm", {x, "2", "[1]", "true", "none"}},
      {"aten.logsumexp", {x, "[1]", "false"}},
      {"aten.count_nonzero", {x, "1"}},
      {"aten.softmax.int", {x, "-1", "none"}},
      {"aten._softmax", {x, "1", "false"}},
      {"aten.log_softmax.int", {x, "0", "none"}},
      {"aten.sort", {x, "1", "false"}},
      {"aten.argsort", {x, "1", "false"}},
      {"aten.cumsum", {x, "1", "none"}},
      {"aten.cummax", {x, "1"}},
      {"aten.cummin", {x, "1"}},
      {"aten.logcumsumexp", {x, "-1"}},
      {"aten.var_mean.correction", {x, "[1]", "1", "true"}},
      {"aten.std_mean.dim", {x, "[0, 2]", "true", "false"}},
      {"aten.nansum", {x, "[1]", "false", "none"}},
      {"aten.kthvalue", {x, "2", "-1", "false"}},
      {"aten.mode", {x, "1", "true"}},
      {"aten.layer_norm", {x, "[6]", "tensor<6xf32>", "tensor<6xf32>", "0.001", "true"}},
      {"aten.layer_norm", {x, "[5, 6]", "none", "none", "0.001", "true"}},
      {"aten._weight_norm", {x, "tensor<4x1x1xf32>", "0"}},
      {"aten._weight_norm", {x, "tensor<1x5x1xf32>", "1"}},
      {"aten.native_layer_norm", {x, "[6]", "tensor<6xf32>", "none", "0.001"}},
      {"aten.rms_norm", {x, "[6]", "tensor<6xf32>", "0.001"}},
  };
  for (const char *training : {"false", "true"})
    cases.push_back({"aten.batch_norm",
                     {"tensor<4x6x5xf32>", "tensor<6xf32>", "tensor<6xf32>", "tensor<6xf32>", "tensor<6xf32>",
                      training, "0.1", "0.5", "false"}});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Reductions, OperatorRulesTest, testing::ValuesIn(reductions()));

std::vector<Case> losses() {
  const std::string x = "tensor<4x5xf32>", row = "tensor<5xf32>";
  std::vector<Case> cases;
  for (std::string how : {"0", "1", "2"}) {
    for (const char *name : {"mse_loss", "l1_loss", "soft_margin_loss"})
      cases.push_back({"aten." + std::string(name), {x, x, how}});
    for (const char *name : {"smooth_l1_loss", "huber_loss"})
      cases.push_back({"aten." + std::string(name), {x, x, how, "0.5"}});
    cases.push_back({"aten.mse_loss", {x, "tensor<4x1xf32>", how}});
    cases.push_back({"aten.kl_div", {x, x, how, "true"}});
    cases.push_back({"aten.binary_cross_entropy_with_logits", {x, x, "none", row, how}});
    cases.push_back({"aten.binary_cross_entropy_with_logits", {x, x, row, "none", how}});
    cases.push_back({"aten.poisson_nll_loss", {x, x, "true", "false", "0.001", how}});
    cases.push_back({"aten.hinge_embedding_loss", {x, x, "1.0", how}});
    cases.push_back({"aten.margin_ranking_loss", {x, x, x, "0.5", how}});
    cases.push_back({"aten.cross_entropy_loss", {x, "tensor<4xi64>", row, how, "-100", "0.0"}});
    cases.push_back({"aten.cross_entropy_loss", {x, "tensor<4xi64>", "none", how, "1", "0.1"}});
    cases.push_back(
        {"aten.cross_entropy_loss", {"tensor<4x5x6xf32>", "tensor<4x6xi64>", "none", how, "1", "0.0"}});
    cases.push_back({"aten.cross_entropy_loss", {x, x, row, how, "-100", "0.1"}});
    cases.push_back({"aten.nll_loss_nd", {"tensor<4x5x6x2xf32>", "tensor<4x6x2xi64>", row, how, "1"}});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Losses, OperatorRulesTest, testing::ValuesIn(losses()));

INSTANTIATE_TEST_SUITE_P(
    BatchOnly, OperatorRulesTest,
    testing::Values(
        Case{"aten.group_norm",
             {"tensor<4x6x5xf32>", "2", "tensor<6xf32>", "tensor<6xf32>", "0.001", "true"}},
        Case{"aten.prelu", {"tensor<4x6x5xf32>", "tensor<6xf32>"}},
        Case{"aten.prelu", {"tensor<4x6x5xf32>", "tensor<1xf32>"}},
        Case{"aten.prelu", {"tensor<6xf32>", "tensor<1xf32>"}},
        Case{"aten.gru.input",
             {"tensor<5x4x3xf32>", "tensor<2x4x6xf32>",
              "(tensor<18x3xf32>; tensor<18x6xf32>; tensor<18xf32>; tensor<18xf32>; tensor<18x3xf32>; "
              "tensor<18x6xf32>; tensor<18xf32>; tensor<18xf32>)",
              "true", "1", "0.0", "false", "true", "false"}},
        Case{"aten.lstm.input",
             {"tensor<4x5x3xf32>", "(tensor<1x4x6xf32>; tensor<1x4x6xf32>)",
              "(tensor<24x3xf32>; tensor<24x6xf32>)", "false", "1", "0.0", "false", "false", "true"}},
        Case{"aten.rnn_tanh.input",
             {"tensor<5x4x3xf32>", "tensor<1x4x6xf32>", "(tensor<6x3xf32>; tensor<6x6xf32>)", "false", "1",
              "0.0", "false", "false", "false"}},
        Case{"aten.max_pool2d", {"tensor<4x6x8x8xf32>", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "false"}},
        Case{"aten.max_pool2d", {"tensor<6x8x8xf32>", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "false"}},
        Case{"aten.upsample_nearest2d", {"tensor<4x6x3x3xf32>", "[6, 6]", "none", "none"}},
        Case{"aten.adaptive_avg_pool2d", {"tensor<4x6x8x8xf32>", "[1, 1]"}},
        Case{"aten.pixel_shuffle", {"tensor<3x8x2x2xf32>", "2"}},
        Case{"aten.grid_sampler", {"tensor<4x3x5x5xf32>", "tensor<4x2x2x2xf32>", "0", "0", "false"}}));

INSTANTIATE_TEST_SUITE_P(
    Views, OperatorRulesTest,
    testing::Values(
        Case{"aten.view", {"tensor<4x6xf32>", "[4, 2, 3]"}},
        Case{"aten.view", {"tensor<4x2x3xf32>", "[4, 6]"}}, Case{"aten.view", {"tensor<4x6xf32>", "[-1, 6]"}},
        Case{"aten.view", {"tensor<4x6xf32>", "[6, 4]"}},
        Case{"aten.reshape", {"tensor<4x6x2xf32>", "[4, 12]"}},
        Case{"aten.flatten.using_ints", {"tensor<4x2x3xf32>", "1", "2"}},
        Case{"aten.unsqueeze", {"tensor<4x6xf32>", "1"}}, Case{"aten.unsqueeze", {"tensor<4x6xf32>", "0"}},
        Case{"aten.squeeze.dim", {"tensor<4x1x6xf32>", "1"}}, Case{"aten.squeeze", {"tensor<4x1x4x6xf32>"}},
        Case{"aten.unflatten.int", {"tensor<4x6xf32>", "1", "[-1, 1]"}},
        Case{"aten.unflatten.int", {"tensor<24x5xf32>", "0", "[4, 6]"}},
        Case{"aten.view_as", {"tensor<4x6xf32>", "tensor<4x2x3xf32>"}},
        Case{"aten.expand_as", {"tensor<4x1xf32>", "tensor<2x4x6xf32>"}},
        Case{"aten.expand", {"tensor<4x1x6xf32>", "[2, 4, 5, 6]", "false"}},
        Case{"aten.expand", {"tensor<4x1xf32>", "[-1, 5]", "false"}},
        Case{"aten.broadcast_to", {"tensor<6xf32>", "[4, 6]"}}, Case{"aten.t", {"tensor<4x6xf32>"}},
        Case{"aten.transpose.int", {"tensor<4x5x6xf32>", "-1", "0"}}, Case{"aten.mT", {"tensor<4x5x6xf32>"}},
        Case{"aten.numpy_T", {"tensor<4x5x6xf32>"}},
        Case{"aten.permute", {"tensor<4x5x6xf32>", "[2, 0, -2]"}},
        Case{"aten.slice.Tensor", {"tensor<4x6xf32>", "1", "1", "5", "2"}},
        Case{"aten.slice.Tensor", {"tensor<4x6xf32>", "1", "0", "9223372036854775807", "1"}},
        Case{"aten.slice.Tensor", {"tensor<4x6xf32>", "-1", "-6", "6", "1"}},
        Case{"aten.narrow", {"tensor<4x6xf32>", "1", "1", "3"}},
        Case{"aten.narrow", {"tensor<4x6xf32>", "1", "0", "6"}},
        Case{"aten.slice_scatter", {"tensor<4x6xf32>", "tensor<4x2xf32>", "1", "1", "3", "1"}},
        Case{"aten.slice_scatter", {"tensor<4x6xf32>", "tensor<4x6xf32>", "1", "0", "6", "1"}},
        Case{"aten.repeat_interleave.self_int", {"tensor<4x6xf32>", "2", "1", "none"}},
        Case{"aten.repeat_interleave.self_int", {"tensor<4x6xf32>", "1", "1", "none"}},
        Case{"aten.view", {"tensor<4x6xf32>", "[24]"}}, Case{"aten.view", {"tensor<24xf32>", "[4, 1, 6]"}},
        Case{"aten.view", {"tensor<2x12xf32>", "[4, 6]"}},
        Case{"aten.cat", {"(tensor<4x6xf32>; tensor<4x2xf32>)", "1"}},
        Case{"aten.cat", {"(tensor<4x6xf32>; tensor<2x6xf32>; tensor<4x6xf32>)", "-2"}},
        Case{"aten.stack", {"(tensor<4x6xf32>; tensor<4x6xf32>)", "1"}},
        Case{"aten.stack", {"(tensor<4x6xf32>; tensor<4x6xf32>)", "-1"}},
        Case{"aten.select.int", {"tensor<4x5x6xf32>", "1", "2"}},
        Case{"aten.select.int", {"tensor<4x5x6xf32>", "-3", "-1"}},
        Case{"aten.unbind.int", {"tensor<4x3x6xf32>", "1"}},
        Case{"aten.chunk", {"tensor<4x6xf32>", "3", "-1"}},
        Case{"aten.split.Tensor", {"tensor<4x6xf32>", "4", "1"}},
        Case{"aten.split_with_sizes", {"tensor<4x6xf32>", "[2, 4]", "1"}},
        Case{"aten.roll", {"tensor<4x6x5xf32>", "[1, 2]", "[1, -1]"}},
        Case{"aten.flip", {"tensor<4x6xf32>", "[1]"}},
        Case{"aten.constant_pad_nd", {"tensor<4x6xf32>", "[1, 2]", "0"}},
        Case{"aten.pad", {"tensor<4x6xf32>", "[1, 2, 0, 0]", "\"constant\"", "none"}},
        Case{"aten.swapaxes", {"tensor<4x5x6xf32>", "0", "-1"}},
        Case{"aten.swapdims", {"tensor<4x5x6xf32>", "1", "2"}},
        Case{"aten.movedim.int", {"tensor<4x5x6xf32>", "0", "-1"}},
        Case{"aten.movedim.intlist", {"tensor<4x5x6x2xf32>", "[3, 0]", "[0, 2]"}},
        Case{"aten.moveaxis.int", {"tensor<4x5x6xf32>", "2", "0"}},
        Case{"aten.diff", {"tensor<4x6xf32>", "1", "-1", "tensor<4x1xf32>", "none"}},
        Case{"aten.one_hot", {"tensor<4x6xi64>", "5"}},
        Case{"aten.broadcast_tensors", {"(tensor<4x6xf32>; tensor<6xf32>; tensor<4x1xf32>)"}},
        Case{"aten.tril", {"tensor<4x5x6xf32>", "0"}}, Case{"aten.repeat", {"tensor<4x1xf32>", "[2, 1, 3]"}},
        Case{"aten.repeat", {"tensor<4x6xf32>", "[1, 2]"}},
        Case{"aten.tile", {"tensor<4x6xf32>", "[2, 3]"}}));

INSTANTIATE_TEST_SUITE_P(
    Indexing, OperatorRulesTest,
    testing::Values(
        Case{"aten.embedding", {"tensor<9x6xf32>", "tensor<4x5xi64>", "-1", "false", "false"}},
        Case{"aten.index.Tensor", {"tensor<4x6x5xf32>", "(none; tensor<3x2xi64>)"}},
        Case{"aten.index.Tensor", {"tensor<4x6x5xf32>", "(tensor<7x1xi64>; tensor<2xi64>; none)"}},
        Case{"aten.index.Tensor", {"tensor<4x6x5xf32>", "(tensor<7xi64>; none; tensor<7xi64>)"}},
        Case{"aten.index.Tensor", {"tensor<4x6x5xf32>", "(none; none; tensor<i64>)"}},
        Case{"aten.index_select", {"tensor<4x6x5xf32>", "1", "tensor<7xi64>"}},
        Case{"aten.gather", {"tensor<4x6x5xf32>", "1", "tensor<4x3x5xi64>", "false"}},
        Case{"aten.gather", {"tensor<4x6x5xf32>", "-1", "tensor<4x2x3xi64>", "false"}},
        Case{"aten.scatter.src", {"tensor<4x6x5xf32>", "1", "tensor<4x3x5xi64>", "tensor<4x3x5xf32>"}},
        Case{"aten.scatter.src", {"tensor<4x6x5xf32>", "-1", "tensor<4x2x3xi64>", "tensor<4x6x3xf32>"}},
        Case{"aten.scatter.value", {"tensor<4x6xf32>", "1", "tensor<4x2xi64>", "0.5"}},
        Case{"aten.scatter.reduce",
             {"tensor<4x6xf32>", "0", "tensor<4x6xi64>", "tensor<4x6xf32>", "\"multiply\""}},
        Case{"aten.scatter_add", {"tensor<4x6xf32>", "1", "tensor<4x2xi64>", "tensor<4x2xf32>"}},
        Case{"aten.take_along_dim", {"tensor<4x6x5xf32>", "tensor<4x2x1xi64>", "1"}},
        Case{"aten.take_along_dim", {"tensor<1x6x5xf32>", "tensor<4x2x5xi64>", "-2"}},
        Case{"aten.zeros", {"[4, 6]", "none", "none", "none", "none"}},
        Case{"aten.new_zeros", {"tensor<3xf32>", "[4, 6]", "none", "none", "none", "none"}}));

std::vector<Case> signals() {
  const std::string real = "tensor<4x5x6xf32>", complex = "tensor<4x5x6xcomplex<f32>>";
  std::vector<Case> cases{
      {"aten.fft_fft", {real, "none", "1", "none"}},
      {"aten.fft_fft", {complex, "8", "-1", "\"ortho\""}},
      {"aten.fft_ifft", {complex, "none", "0", "none"}},
      {"aten.fft_rfft", {real, "none", "-1", "none"}},
      {"aten.fft_rfft", {real, "9", "0", "none"}},
      {"aten.fft_irfft", {complex, "none", "1", "\"forward\""}},
      {"aten.fft_irfft", {complex, "7", "-1", "none"}},
      {"aten.fft_hfft", {complex, "none", "-1", "none"}},
      {"aten.fft_ihfft", {real, "none", "1", "none"}},
      {"aten.fft_fft2", {real, "none", "[-2, -1]", "none"}},
      {"aten.fft_rfft2", {real, "[4, 8]", "[1, 2]", "none"}},
      {"aten.fft_irfft2", {complex, "none", "[0, 1]", "none"}},
      {"aten.fft_fftn", {real, "none", "[1]", "none"}},
      {"aten.fft_fftn", {real, "none", "none", "none"}},
      {"aten.fft_ifftn", {complex, "[3]", "none", "none"}},
      {"aten.fft_rfftn", {real, "[4, 4]", "none", "none"}},
      {"aten.fft_irfftn", {complex, "none", "[1, 2]", "none"}},
      {"aten._fft_r2c", {real, "[1]", "0", "true"}},
      {"aten._fft_c2r", {complex, "[2]", "0", "10"}},
      {"aten._fft_c2c", {complex, "[0, 2]", "0", "false"}},
      {"aten.fft_fftshift", {real, "[1]"}},
      {"aten.fft_ifftshift", {real, "none"}},
      {"aten.stft", {"tensor<4x32xf32>", "8", "4", "8", "tensor<8xf32>", "false", "none", "true", "none"}},
      {"aten.stft", {"tensor<32xf32>", "8", "4", "none", "tensor<8xf32>", "true", "true", "true", "none"}},
      {"aten.stft.center",
       {"tensor<4x32xf32>", "8", "none", "6", "tensor<6xf32>", "true", "\"reflect\"", "false", "false",
        "false", "none"}},
      {"aten.istft",
       {"tensor<4x5x9xcomplex<f32>>", "8", "2", "none", "none", "true", "false", "none", "none", "false"}},
      {"aten.istft",
       {"tensor<5x9xcomplex<f32>>", "8", "2", "none", "none", "true", "false", "true", "12", "false"}},
      {"aten.view_as_real", {complex}},
      {"aten.view_as_complex", {"tensor<4x3x2xf32>"}},
      {"aten.unfold", {"tensor<4x9x6xf32>", "1", "3", "2"}},
      {"aten.unfold", {"tensor<4x9xf32>", "-1", "2", "1"}},
      {"aten.im2col", {"tensor<4x3x6x5xf32>", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}},
      {"aten.im2col", {"tensor<3x6x5xf32>", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}},
      {"aten.col2im", {"tensor<4x18x12xf32>", "[6, 5]", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}},
      {"aten.col2im", {"tensor<18x12xf32>", "[6, 5]", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}},
      {"aten.channel_shuffle", {"tensor<4x6x5xf32>", "2"}},
      {"aten.native_channel_shuffle", {"tensor<4x6x5x2xf32>", "3"}},
      {"aten.pixel_shuffle", {"tensor<3x4x8x2x2xf32>", "2"}},
      {"aten.pixel_shuffle", {"tensor<8x2x2xf32>", "2"}},
      {"aten.pixel_unshuffle", {"tensor<3x2x6x4xf32>", "2"}},
      {"aten.searchsorted.Tensor", {"tensor<4x6xf32>", "tensor<4x3xf32>", "false", "true", "none", "none"}},
      {"aten.searchsorted.Tensor", {"tensor<6xf32>", "tensor<4x3xf32>", "true", "false", "none", "none"}},
      {"aten.searchsorted.Tensor",
       {"tensor<4x6xf32>", "tensor<4x3xf32>", "false", "false", "\"right\"", "tensor<4x6xi64>"}},
      {"aten.bucketize.Tensor", {real, "tensor<5xf32>", "false", "false"}},
  };
  for (const char *name : {"conj", "_conj", "resolve_conj", "conj_physical", "_conj_physical"})
    cases.push_back({"aten." + std::string(name), {complex}});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Signals, OperatorRulesTest, testing::ValuesIn(signals()));

INSTANTIATE_TEST_SUITE_P(
    Windows, OperatorRulesTest,
    testing::Values(
        Case{"aten.max_pool1d", {"tensor<4x6x9xf32>", "[2]", "[2]", "[0]", "[1]", "true"}},
        Case{"aten.max_pool3d",
             {"tensor<4x2x6x5x4xf32>", "[2, 2, 2]", "[2, 1, 2]", "[0, 0, 0]", "[1, 1, 1]", "false"}},
        Case{"aten.max_pool2d_with_indices",
             {"tensor<4x6x8x8xf32>", "[3, 2]", "[2, 2]", "[1, 0]", "[1, 2]", "false"}},
        Case{"aten.avg_pool1d", {"tensor<4x6x9xf32>", "[3]", "[2]", "[1]", "true", "false"}},
        Case{"aten.avg_pool2d",
             {"tensor<4x6x9x8xf32>", "[3, 3]", "[2, 2]", "[1, 1]", "true", "true", "none"}},
        Case{"aten.avg_pool3d",
             {"tensor<4x2x6x5x4xf32>", "[2, 2, 2]", "[2, 2, 2]", "[0, 0, 0]", "false", "true", "none"}},
        Case{"aten.adaptive_avg_pool1d", {"tensor<4x6x9xf32>", "[4]"}},
        Case{"aten.adaptive_avg_pool3d", {"tensor<4x2x6x5x4xf32>", "[3, 2, 2]"}},
        Case{"aten.adaptive_max_pool1d", {"tensor<4x6x9xf32>", "[4]"}},
        Case{"aten.adaptive_max_pool2d", {"tensor<4x6x8x7xf32>", "[3, 2]"}},
        Case{"aten.adaptive_max_pool3d", {"tensor<4x2x6x5x4xf32>", "[3, 2, 2]"}},
        Case{"aten.upsample_nearest1d", {"tensor<4x6x5xf32>", "[7]", "none"}},
        Case{"aten.upsample_nearest3d", {"tensor<4x2x3x3x2xf32>", "[6, 5, 4]", "none", "none", "none"}},
        Case{"aten._upsample_nearest_exact2d", {"tensor<4x6x3x3xf32>", "[7, 5]", "none", "none"}},
        Case{"aten.upsample_linear1d", {"tensor<4x6x5xf32>", "[7]", "false", "none"}},
        Case{"aten.upsample_bilinear2d", {"tensor<4x6x3x3xf32>", "[7, 5]", "true", "none", "none"}},
        Case{"aten.upsample_trilinear3d",
             {"tensor<4x2x3x3x2xf32>", "[6, 5, 4]", "false", "none", "none", "none"}},
        Case{"aten.upsample_bicubic2d", {"tensor<4x6x5x5xf32>", "[7, 4]", "false", "none", "none"}},
        Case{"aten._upsample_bilinear2d_aa", {"tensor<4x6x8x8xf32>", "[3, 5]", "false", "none", "none"}}));

INSTANTIATE_TEST_SUITE_P(
    Vectors, OperatorRulesTest,
    testing::Values(Case{"aten.dot", {"tensor<6xf32>", "tensor<6xf32>"}, true},
                    Case{"aten.vdot", {"tensor<6xf32>", "tensor<6xf32>"}, true},
                    Case{"aten.mv", {"tensor<4x6xf32>", "tensor<6xf32>"}, true},
                    Case{"aten.addmv", {"tensor<4xf32>", "tensor<4x6xf32>", "tensor<6xf32>", "1", "1"}, true},
                    Case{"aten.outer", {"tensor<4xf32>", "tensor<6xf32>"}},
                    Case{"aten.linalg_vector_norm", {"tensor<6xf32>", "2", "none", "false", "none"}}));

// A rule that gives up passes every test above, so the ones that decide how a transformer is split are
// stated.
TEST(OperatorRulesTest, SplitsWhatMattersMost) {
  RuleCheck linear("aten.linear", {"tensor<4x3x6xf32>", "tensor<5x6xf32>", "tensor<5xf32>"});
  EXPECT_EQ(linear.count(FactorKind::PassThrough), 3u);
  EXPECT_EQ(linear.count(FactorKind::Reduce), 1u);
  RuleCheck attention("aten.scaled_dot_product_attention",
                      {"tensor<2x4x5x8xf32>", "tensor<2x4x7x8xf32>", "tensor<2x4x7x6xf32>",
                       "tensor<2x1x5x7xf32>", "0.0", "false", "none", "false"});
  EXPECT_EQ(attention.count(FactorKind::PassThrough), 4u) << "batch, heads, positions, value's width";
  RuleCheck norm("aten.layer_norm", {"tensor<4x5x6xf32>", "[6]", "none", "none", "0.001", "true"});
  EXPECT_EQ(norm.count(FactorKind::PassThrough), 2u);
  RuleCheck pool("aten.max_pool3d", {"tensor<4x2x6x5x4xf32>", "[2]", "[2]", "[0]", "[1]", "false"});
  EXPECT_EQ(pool.count(FactorKind::PassThrough), 2u);
  RuleCheck product("aten.mv", {"tensor<4x6xf32>", "tensor<6xf32>"});
  EXPECT_EQ(product.count(FactorKind::PassThrough), 1u);
  RuleCheck embedding("aten.embedding", {"tensor<9x6xf32>", "tensor<4x5xi64>", "-1", "false", "false"});
  EXPECT_EQ(embedding.count(FactorKind::PassThrough), 3u);
  EXPECT_EQ(embedding.count(FactorKind::Lookup), 1u);
}

TEST(OperatorRulesTest, SplitsDimensionsThatAreNotMixed) {
  const std::pair<Case, unsigned> passing[] = {
      {{"aten.fft_rfft", {"tensor<4x5x6xf32>", "none", "-1", "none"}}, 2},
      {{"aten.fft_fft2", {"tensor<4x5x6xf32>", "none", "[-2, -1]", "none"}}, 1},
      {{"aten.fft_fftn", {"tensor<4x5x6xf32>", "[4]", "none", "none"}}, 2},
      {{"aten.fft_fftn", {"tensor<4x5x6xf32>", "none", "none", "none"}}, 0},
      {{"aten.stft", {"tensor<4x32xf32>", "8", "4", "8", "tensor<8xf32>", "false", "none", "true", "none"}},
       1},
      {{"aten.istft",
        {"tensor<4x5x9xcomplex<f32>>", "8", "2", "none", "none", "true", "false", "none", "none", "false"}},
       1},
      {{"aten.view_as_real", {"tensor<4x6xcomplex<f32>>"}}, 2},
      {{"aten.view_as_complex", {"tensor<4x3x2xf32>"}}, 2},
      {{"aten.unfold", {"tensor<4x9x6xf32>", "1", "3", "2"}}, 2},
      {{"aten.im2col", {"tensor<4x3x6x5xf32>", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}}, 2},
      {{"aten.col2im", {"tensor<4x18x12xf32>", "[6, 5]", "[2, 3]", "[1, 1]", "[1, 0]", "[2, 1]"}}, 2},
      {{"aten.channel_shuffle", {"tensor<4x6x5xf32>", "2"}}, 2},
      {{"aten.pixel_shuffle", {"tensor<3x4x8x2x2xf32>", "2"}}, 2},
      {{"aten.searchsorted.Tensor", {"tensor<4x6xf32>", "tensor<4x3xf32>", "false", "true", "none", "none"}},
       2},
      {{"aten.bucketize.Tensor", {"tensor<4x6xf32>", "tensor<5xf32>", "false", "false"}}, 2},
      {{"aten.scatter.value", {"tensor<4x6xf32>", "1", "tensor<4x2xi64>", "0.5"}}, 1},
      {{"aten.take_along_dim", {"tensor<4x6x5xf32>", "tensor<4x2x1xi64>", "1"}}, 3}};
  for (const auto &[call, count] : passing)
    EXPECT_EQ(RuleCheck(call.name, call.operands).count(FactorKind::PassThrough), count) << call.name;
}

TEST(OperatorRulesTest, HasNoRuleForDimensionsThatAreNot) {
  for (const Case &value :
       {Case{"aten.flip", {kX, "[2]"}}, Case{"aten.split.Tensor", {kX, "2", "-3"}},
        Case{"aten.select.int", {kX, "2", "0"}}, Case{"aten.transpose.int", {kX, "0", "2"}},
        Case{"aten.permute", {kX, "[0, 2]"}}}) {
    OperatorCall call(value.name, value.operands);
    EXPECT_FALSE(opShardingRuleOf(call.op(), call.shapes()).has_value()) << value.name;
  }
}

} // namespace
} // namespace cleave
