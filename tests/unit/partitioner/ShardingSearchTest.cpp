#include "partitioner/ShardingSearch.h"
#include "ParseModule.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// A residual stream of `layers` times two products, whose widths differ from layer to layer where `widths`
/// do.
std::string layersOf(ArrayRef<int> widths) {
  std::string text = "func.func @f(%x0: tensor<5x8xf32>) -> tensor<5x8xf32> {\n"
                     "  %none = cleave.constant(unit) : none\n  %one = cleave.constant(1 : i64) : i64\n";
  for (auto [layer, width] : llvm::enumerate(widths)) {
    std::string i = std::to_string(layer), w = std::to_string(width), next = std::to_string(layer + 1);
    std::string up = "tensor<" + w + "x8xf32>", down = "tensor<8x" + w + "xf32>",
                h = "tensor<5x" + w + "xf32>";
    text += "  %up" + i + " = cleave.param \"" + i + ".up\" {role = \"parameter\"} : " + up + "\n  %down" +
            i + " = cleave.param \"" + i + ".down\" {role = \"parameter\"} : " + down + "\n  %a" + i +
            " = aten.linear(%x" + i + ", %up" + i + ", %none) : (tensor<5x8xf32>, " + up + ", none) -> " + h +
            "\n  %b" + i + " = aten.relu(%a" + i + ") : (" + h + ") -> " + h + "\n  %c" + i +
            " = aten.linear(%b" + i + ", %down" + i + ", %none) : (" + h + ", " + down +
            ", none) -> tensor<5x8xf32>\n  %x" + next + " = aten.add.Tensor(%x" + i + ", %c" + i +
            ", %one) : (tensor<5x8xf32>, tensor<5x8xf32>, i64) -> tensor<5x8xf32>\n";
  }
  return text + "  return %x" + std::to_string(widths.size()) + " : tensor<5x8xf32>\n}\n";
}

TEST(ShardingSearchTest, SplitsAlikeLayersAlike) {
  std::vector<int> widths(40, 32);
  widths[7] = 33;
  auto module = parseModule(layersOf(widths));
  ASSERT_TRUE(module);
  ShardingDecision decision = decideSharding(*module->getOps<func::FuncOp>().begin(), 2, {1e-6, 1e9}, {});
  ASSERT_EQ(decision.weights.size(), 80u);
  EXPECT_EQ(decision.seeds.size(), 40u);
  for (WeightDecision weight : decision.weights)
    EXPECT_EQ(weight.style,
              weight.weight.getName().ends_with("up") ? ShardingStyle::Colwise : ShardingStyle::Rowwise);
  for (const SplitDimension &dimension : decision.dimensions) {
    EXPECT_EQ(dimension.weights.size(), 2u);
    EXPECT_EQ(dimension.sums, 1u);
    EXPECT_EQ(dimension.gathers, 0u);
  }
}

} // namespace
} // namespace cleave
