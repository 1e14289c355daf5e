// Functions of a module that are split into stages share weights and states, or there is no plan.
#include "RandomValues.h"
#include "codegen/EmitPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Error.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

constexpr char kWeight[] = R"(cleave.param "w" {role = "parameter"} : tensor<256x128xf32>)";

/// A function of two stages, with these operations in them; each makes a %w.
std::string function(StringRef name, StringRef first, StringRef second) {
  std::string text = "func.func @" + name.str() + R"((%x: tensor<4xf32> {cleave.name = "x"}) ->
    (tensor<4xf32> {cleave.name = "y"}) attributes {
      cleave.cut = #cleave.cut<seconds = [0.0, 0.0], recv_bytes = [0, 8]>,
      cleave.input_tree = ["dict", "x", 0], cleave.output_tree = 0} {)";
  for (auto [index, body] : {std::pair(0, first), {1, second}})
    text += "%" + std::to_string(index) + " = cleave.stage " + std::to_string(index) + "(" +
            (index ? "%0" : "%x") + ") : (tensor<4xf32>) -> tensor<4xf32> {\n^bb0(%a: tensor<4xf32>):\n" +
            (body.empty() ? "" : "%w = " + body.str()) +
            "\n%b = aten.relu(%a) : (tensor<4xf32>) -> tensor<4xf32>\ncleave.yield %b : tensor<4xf32>\n}\n";
  return text + "return %1 : tensor<4xf32>\n}\n";
}

llvm::Expected<std::unique_ptr<plan::Plan>> planOf(const std::string &text) {
  std::string message;
  ScopedDiagnosticHandler handler(&testContext(), [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &testContext());
  if (module)
    if (auto plan = emitPlan(*module, {"test", {}, ""}); succeeded(plan))
      return std::move(*plan);
  return llvm::createStringError(message);
}

std::string errorOf(const std::string &text) {
  auto plan = planOf(text);
  return plan ? "" : toString(plan.takeError());
}

TEST(CheckSignaturesTest, EmitsOneWeightForAll) {
  auto plan = planOf(function("one", kWeight, "") + function("two", kWeight, ""));
  ASSERT_TRUE(bool(plan)) << toString(plan.takeError());
  ASSERT_EQ((*plan)->weights.size(), 1u);
  EXPECT_EQ((*plan)->weights.front()->shards.size(), 1u);
  EXPECT_EQ((*plan)->signatures.size(), 2u);
  // Of all signatures together.
  EXPECT_EQ((*plan)->predictions.size(), 2u);
  EXPECT_EQ((*plan)->predictions.front()->weight_bytes, 256 * 128 * 4);
}

TEST(CheckSignaturesTest, RefusesOtherTypesAndAttributes) {
  for (StringRef other : {R"(cleave.param "w" {role = "parameter"} : tensor<256x128xbf16>)",
                          R"(cleave.param "w" {role = "buffer"} : tensor<256x128xf32>)",
                          R"(cleave.param "w" {role = "parameter",
                              shard = #cleave.sharding<0, [0, 256], [256, 256]>} : tensor<256x128xf32>)"})
    EXPECT_THAT(errorOf(function("one", kWeight, "") + function("two", other, "")),
                testing::AllOf(testing::HasSubstr("found weight \"w\" of "),
                               testing::HasSubstr("as in signature one")));
}

TEST(CheckSignaturesTest, RefusesAnotherHome) {
  EXPECT_EQ(errorOf(function("one", kWeight, "") + function("two", "", kWeight)),
            "found weight \"w\" in stage 1, expected stage 0 as in signature one");
  EXPECT_EQ(errorOf(function("one", kWeight, kWeight) + function("two", "", kWeight)), "");
}

TEST(CheckSignaturesTest, LetsStagesRepeatSmallWeights) {
  constexpr char small[] = R"(cleave.param "b" {role = "parameter"} : tensor<128xf32>)";
  EXPECT_EQ(errorOf(function("one", small, "") + function("two", "", small)), "");
}

TEST(CheckSignaturesTest, RefusesOtherNumbersOfStages) {
  std::string three = function("two", "", "");
  const size_t at = three.find("return %1");
  three.replace(at, 9,
                "%2 = cleave.stage 2(%1) : (tensor<4xf32>) -> tensor<4xf32> {\n^bb0(%a: tensor<4xf32>):\n"
                "cleave.yield %a : tensor<4xf32>\n}\nreturn %2");
  three.replace(three.find("[0.0, 0.0]"), 10, "[0.0, 0.0, 0.0]");
  three.replace(three.find("[0, 8]"), 6, "[0, 8, 8]");
  EXPECT_THAT(errorOf(function("one", "", "") + three), testing::HasSubstr("as signature one"));
}

} // namespace
} // namespace cleave
