// Observes of a stage become capture points: where the slots hold the values, and whether they can be
// written.
#include "RandomValues.h"
#include "codegen/EmitPlan.h"
#include "codegen/plan/EncodePlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Error.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// The plan of a function of one stage with this body, on `ranks` tensor-parallel ranks.
std::unique_ptr<plan::Plan> planOf(const std::string &body, unsigned ranks = 1) {
  const std::string text = R"(
func.func @forward(%x: tensor<4x8xf32> {cleave.name = "x"}) -> (tensor<4x8xf32> {cleave.name = "y"}) attributes {
    cleave.tp = )" + std::to_string(ranks) +
                           R"( : i64, cleave.cut = #cleave.cut<seconds = [0.0], recv_bytes = [0]>,
    cleave.input_tree = ["dict", "x", 0], cleave.output_tree = 0} {
  %0 = cleave.stage 0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
)" + body + R"(
    cleave.yield %y : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
})";
  auto module = parseSourceString<ModuleOp>(text, &testContext());
  if (!module)
    return nullptr;
  auto plan = emitPlan(*module, {"test", {}, ""});
  return succeeded(plan) ? std::move(*plan) : nullptr;
}

std::string unary(const std::string &result, const std::string &op, const std::string &operand) {
  return result + " = aten." + op + "(" + operand + ") : (tensor<4x8xf32>) -> tensor<4x8xf32>\n";
}

std::string product(const std::string &result, const std::string &left, const std::string &right) {
  return result + " = aten.mul.Tensor(" + left + ", " + right +
         ") : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>\n";
}

std::string observe(const std::string &value, const std::string &path, const std::string &attributes = "") {
  return "cleave.observe " + value + " \"" + path + "\" output 0 call 0 " + attributes +
         " : tensor<4x8xf32>\n";
}

/// The only point of a plan, which has one slot.
const plan::CapturePoint &onlyPoint(const plan::Plan &plan) {
  EXPECT_EQ(plan.capture_points.size(), 1u);
  EXPECT_EQ(plan.capture_points.front()->slots.size(), 1u);
  return *plan.capture_points.front();
}

TEST(CapturePointsTest, SayWhereTheValueIs) {
  auto plan = planOf(unary("%b", "relu", "%a") + unary("%c", "exp", "%b") + observe("%c", "act") +
                     unary("%y", "tanh", "%c"));
  ASSERT_TRUE(plan);
  const plan::CapturePoint &point = onlyPoint(*plan);
  const plan::Program &program = *plan->programs.front();
  EXPECT_EQ(point.path, "act");
  EXPECT_EQ(point.slots[0]->slot, program.blocks[0]->instructions[1]->results[0]);
  EXPECT_EQ(point.slots[0]->after, 2u);
  EXPECT_TRUE(point.writable);
  EXPECT_FALSE(point.partial);
  ASSERT_TRUE(point.type);
  EXPECT_EQ(point.type->dims.size(), 2u);
}

TEST(CapturePointsTest, AreNoInstructions) {
  auto with = planOf(unary("%b", "relu", "%a") + observe("%b", "act") + unary("%y", "tanh", "%b"));
  auto without = planOf(unary("%b", "relu", "%a") + unary("%y", "tanh", "%b"));
  ASSERT_TRUE(with && without);
  ASSERT_EQ(with->capture_points.size(), 1u);
  with->capture_points.clear();
  EXPECT_EQ(plan::encode(*with), plan::encode(*without));
}

TEST(CapturePointsTest, OfOutputsAreAtTheEnd) {
  auto plan = planOf(unary("%y", "relu", "%a") + observe("%y", "act"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(onlyPoint(*plan).slots[0]->after, 1u);
  EXPECT_TRUE(onlyPoint(*plan).writable);
}

TEST(CapturePointsTest, AreReadWhereTheValueStillIs) {
  auto plan = planOf(unary("%b", "relu", "%a") + unary("%c", "exp", "%b") + unary("%d", "neg", "%c") +
                     observe("%b", "act") + unary("%y", "tanh", "%d"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(onlyPoint(*plan).slots[0]->after, 1u);
  EXPECT_FALSE(onlyPoint(*plan).writable);
}

// What follows the module would have it of the unedited value.
TEST(CapturePointsTest, AreNotWritableIfWhatWasMadeBeforeIsUsedAfter) {
  auto plan = planOf(unary("%b", "relu", "%a") + unary("%c", "exp", "%b") + observe("%b", "act") +
                     product("%y", "%b", "%c"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(onlyPoint(*plan).slots[0]->after, 2u);
  EXPECT_FALSE(onlyPoint(*plan).writable);
  // Unless it is another of the module's results.
  plan = planOf(unary("%b", "relu", "%a") + unary("%c", "exp", "%b") + observe("%b", "act") +
                "cleave.observe %c \"act\" output 1 call 0 : tensor<4x8xf32>\n" + product("%y", "%b", "%c"));
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->capture_points.size(), 2u);
  EXPECT_TRUE(plan->capture_points[0]->writable);
}

TEST(CapturePointsTest, KeepWhatIsDeclaredAndNotUsed) {
  auto plan =
      planOf(unary("%b", "relu", "%a") + observe("%b", "act", "{declared}") + unary("%y", "tanh", "%a"));
  ASSERT_TRUE(plan);
  const uint32_t slot = onlyPoint(*plan).slots[0]->slot;
  for (const auto &instruction : plan->programs.front()->blocks[0]->instructions)
    EXPECT_THAT(instruction->releases, testing::Not(testing::Contains(slot)));
}

TEST(CapturePointsTest, OfInputsAreReadOnly) {
  auto plan = planOf("%b = cleave.boundary %a \"first\" output 0 : (tensor<4x8xf32>) -> tensor<4x8xf32>\n" +
                     unary("%y", "tanh", "%b"));
  ASSERT_TRUE(plan);
  EXPECT_EQ(onlyPoint(*plan).slots[0]->after, 0u);
  EXPECT_FALSE(onlyPoint(*plan).writable);
}

TEST(CapturePointsTest, SayWhatRanksHave) {
  auto plan =
      planOf(unary("%b", "relu", "%a") +
                 observe("%b", "rows",
                         "{shard = #cleave.sharding<0, [0, 3], [3, 2, 6, 3]>, whole = tensor<9x8xf32>}") +
                 unary("%c", "exp", "%b") + observe("%c", "sum", "{partial}") + unary("%y", "tanh", "%c"),
             /*ranks=*/2);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->capture_points.size(), 2u);
  const plan::CapturePoint &rows = *plan->capture_points[0], &sum = *plan->capture_points[1];
  ASSERT_EQ(rows.slots.size(), 2u);
  EXPECT_EQ(rows.slots[1]->tp_rank, 1u);
  ASSERT_EQ(rows.slots[1]->ranges.size(), 1u);
  EXPECT_EQ(rows.slots[1]->ranges[0]->offsets, (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(rows.slots[1]->ranges[0]->sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(rows.type->dims[0]->terms[0]->coefficient, 9);
  EXPECT_FALSE(rows.partial);
  EXPECT_TRUE(sum.partial);
  EXPECT_TRUE(sum.slots[1]->ranges.empty());
}

} // namespace
} // namespace cleave
