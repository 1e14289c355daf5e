// Runs operators on tensors that hold their own positions, and compares with where their rules say that these
// go.
#include "OperatorCall.h"
#include "ir/semantics/OpSemantics.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave {
namespace {

struct Case {
  std::string name;
  std::vector<std::string> operands;
};

void PrintTo(const Case &value, std::ostream *out) {
  *out << value.name << testing::PrintToString(value.operands);
}

/// Tells positions of one operand from another's.
constexpr int64_t kOperand = 1000;

/// Every element of a tensor becomes its position along `dim`.
at::Tensor positions(const at::Tensor &like, int64_t dim, int64_t operand) {
  std::vector<int64_t> shape(like.dim(), 1);
  shape[dim] = like.size(dim);
  return (at::arange(like.size(dim)).view(shape) + operand * kOperand).expand_as(like).to(like.scalar_type());
}

/// The items of a list, or the tensor itself.
std::vector<at::Tensor> tensorsOf(const c10::IValue &value) {
  return value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>{value.toTensor()};
}

class IndexMapTest : public testing::TestWithParam<Case> {};

TEST_P(IndexMapTest, SaysWherePositionsComeFrom) {
  OperatorCall call(GetParam().name, GetParam().operands);
  auto rule = indexMapOf(call.op(), call.shapes());
  ASSERT_TRUE(rule.has_value());
  std::vector<c10::IValue> operands = call.makeOperands(0);
  if (operands[0].isTensorList()) {
    std::vector<at::Tensor> items = operands[0].toTensorVector();
    for (size_t i = 0; i < items.size(); ++i)
      items[i] = positions(items[i], rule->dim, i);
    operands[0] = items;
  } else {
    operands[0] = positions(operands[0].toTensor(), rule->dim, 0);
  }
  std::vector<at::Tensor> results = tensorsOf(call.run(operands)[0]);
  ASSERT_EQ(rule->results.size(), results.size());
  for (auto [sources, result] : llvm::zip(rule->results, results)) {
    ASSERT_EQ(int64_t(sources.size()), result.size(rule->dim));
    for (auto [position, source] : llvm::enumerate(sources)) {
      at::Tensor found = result.select(rule->dim, position);
      EXPECT_TRUE(found.eq(at::full_like(found, double(source.operand * kOperand + source.position)))
                      .all()
                      .item<bool>())
          << "position " << position;
    }
  }
}

const std::string x = "tensor<2x12x3xf32>";

INSTANTIATE_TEST_SUITE_P(
    All, IndexMapTest,
    testing::Values(Case{"aten.cat", {"(" + x + "; tensor<2x5x3xf32>; " + x + ")", "1"}},
                    Case{"aten.cat", {"(" + x + "; " + x + ")", "-2"}},
                    Case{"aten.split.Tensor", {x, "4", "1"}}, Case{"aten.split.Tensor", {x, "5", "-2"}},
                    Case{"aten.split_with_sizes", {x, "[3, 2, 7]", "1"}}, Case{"aten.chunk", {x, "3", "1"}},
                    Case{"aten.chunk", {x, "5", "1"}}, Case{"aten.tensor_split.sections", {x, "5", "1"}},
                    Case{"aten.slice.Tensor", {x, "1", "2", "9", "1"}},
                    Case{"aten.slice.Tensor", {x, "1", "none", "9223372036854775807", "2"}},
                    Case{"aten.slice.Tensor", {x, "1", "-5", "-1", "3"}},
                    Case{"aten.slice.Tensor", {x, "1", "-50", "5", "1"}},
                    Case{"aten.narrow", {x, "1", "3", "4"}}, Case{"aten.narrow", {x, "1", "-3", "2"}},
                    Case{"aten.flip", {x, "[-2]"}}, Case{"aten.roll", {x, "[5]", "[1]"}},
                    Case{"aten.roll", {x, "[-17]", "[1]"}},
                    Case{"aten.repeat_interleave.self_int", {x, "3", "1", "none"}}));

TEST(IndexMapTest, KnowsNothingOfWhatIsNotConstant) {
  for (const Case &value : {Case{"aten.flip", {x, "[0, 1]"}}, Case{"aten.roll", {x, "[1, 1]", "[0, 1]"}},
                            Case{"aten.roll", {x, "[1]", "[]"}}, Case{"aten.roll", {x, "[1]", "[-4]"}},
                            Case{"aten.flip", {x, "[3]"}}, Case{"aten.split.Tensor", {x, "4", "3"}},
                            Case{"aten.repeat_interleave.self_int", {x, "2", "none", "none"}}}) {
    OperatorCall call(value.name, value.operands);
    EXPECT_FALSE(indexMapOf(call.op(), call.shapes()).has_value()) << value.name;
  }
}

} // namespace
} // namespace cleave
