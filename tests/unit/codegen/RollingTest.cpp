// Rolls every sharding group of random functions: the rules of ir/semantics and the propagation of labels
// against the operators. CLEAVE_PROPERTY_CASES and CLEAVE_PROPERTY_SEED as in SpmdProgramTest.cpp.
#include "tests/rolling/Rolling.h"
#include "RandomProgram.h"
#include "RandomValues.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace testing;

namespace cleave {
namespace {

struct Case {
  explicit Case(const std::string &text) : module(parseSourceString<ModuleOp>(text, &testContext())) {
    function = *module->getOps<func::FuncOp>().begin();
    std::tie(weights, inputs) = randomValues(function);
    interpreter.emplace(weights, inputs);
    interpreter->run(function);
    rolling.emplace(function, *interpreter);
  }
  /// The sharding group of dimension 1 of the first input.
  ShardingGroup columns() { return rolling->getAnalyzedFunction().propagate({function.getArgument(0)}, 1); }

  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  NamedTensors weights;
  Tensors inputs;
  std::optional<Interpreter> interpreter;
  std::optional<Rolling> rolling;
};

TEST(RollingTest, RandomFunctionsGiveTheSameRolled) {
  at::InferenceMode mode;
  const char *more = std::getenv("CLEAVE_PROPERTY_CASES"), *only = std::getenv("CLEAVE_PROPERTY_SEED");
  const uint32_t first = only ? std::stoul(only) : 0, cases = only ? 1 : more ? std::stoul(more) : 300;
  std::map<std::string, size_t> seen;
  size_t rolled = 0;
  for (uint32_t seed = first; seed < first + cases && !HasFailure(); ++seed) {
    Dice dice(seed);
    at::manual_seed(seed);
    const std::string text = RandomProgram(dice, 2 + seed % 14, seed % 2).text();
    const RollingReport report = Case(text).rolling->run();
    EXPECT_THAT(report.failures, IsEmpty()) << "seed " << seed << "\n" << text;
    rolled += report.rolled;
    for (auto &[name, count] : report.operators)
      seen[name] += count;
  }
  if (only)
    return;
  EXPECT_GT(rolled, 2 * cases);
  for (const char *name :
       {"aten.linear", "aten.mm", "aten.matmul", "aten.einsum", "aten.embedding", "aten.conv1d",
        "aten.scaled_dot_product_attention", "aten.group_norm", "aten.view", "aten.expand", "aten.cat",
        "aten.slice.Tensor", "aten.chunk", "aten.flip", "aten.roll"})
    EXPECT_GT(seen[name], 0u) << name;
}

// Running sums of columns are other sums in another order.
constexpr const char *kRunningSum = R"(
func.func @f(%x: tensor<3x6xf64>) -> tensor<3x6xf64> {
  %one = cleave.constant(1 : i64) : i64
  %none = cleave.constant(unit) : none
  %0 = aten.cumsum(%x, %one, %none) : (tensor<3x6xf64>, i64, none) -> tensor<3x6xf64>
  return %0 : tensor<3x6xf64>
})";

TEST(RollingTest, FindsAnOperatorThatNeedsTheWhole) {
  Case sums(kRunningSum);
  ShardingGroup split = sums.columns();
  sums.rolling->roll(split, "columns");
  EXPECT_THAT(sums.rolling->getReport().failures, IsEmpty());
  EXPECT_EQ(sums.rolling->getReport().calls, 0u);
  split.gathers.clear();
  sums.rolling->roll(split, "columns");
  EXPECT_THAT(sums.rolling->getReport().failures, Contains(HasSubstr("result 0 differs by")));
}

constexpr const char *kPair = R"(
func.func @f(%x: tensor<3x6xf64>, %y: tensor<3x6xf64>) -> tensor<3x6xf64> {
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.add.Tensor(%x, %y, %one) : (tensor<3x6xf64>, tensor<3x6xf64>, i64) -> tensor<3x6xf64>
  return %0 : tensor<3x6xf64>
})";

TEST(RollingTest, FindsPositionsThatDoNotGoTogether) {
  Case pair(kPair);
  ShardingGroup split = pair.columns();
  EXPECT_EQ(split.tensors.size(), 3u);
  pair.rolling->roll(split, "columns");
  EXPECT_THAT(pair.rolling->getReport().failures, IsEmpty());
  EXPECT_EQ(pair.rolling->getReport().calls, 2u);
  std::swap(split.tensors.find({pair.function.getArgument(1)})->second.labels[0],
            split.tensors.find({pair.function.getArgument(1)})->second.labels[5]);
  pair.rolling->roll(split, "columns");
  EXPECT_THAT(pair.rolling->getReport().failures, Contains(HasSubstr("labels of no one factor")));
}

TEST(RollingTest, FindsASumThatIsNotOwed) {
  Case product(R"(
func.func @f(%x: tensor<3x6xf64>, %y: tensor<6x4xf64>) -> tensor<3x4xf64> {
  %0 = aten.mm(%x, %y) : (tensor<3x6xf64>, tensor<6x4xf64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
})");
  ShardingGroup split = product.columns();
  product.rolling->roll(split, "columns");
  EXPECT_THAT(product.rolling->getReport().failures, IsEmpty());
  split.partialSums.clear();
  product.rolling->roll(split, "columns");
  EXPECT_THAT(product.rolling->getReport().failures, Contains(HasSubstr("a sum is not owed")));
}

} // namespace
} // namespace cleave
