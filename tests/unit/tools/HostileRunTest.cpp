//===- HostileRunTest.cpp - Plans that take what they can get -------------===//
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "runtime/base/TensorFile.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tests/unit/runtime/TestModels.h"
#include "tests/unit/tools/RunCleave.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using testing::StartsWith;

/// No kernel goes over so many elements while somebody waits.
static constexpr int64_t kEndless = int64_t(1) << 44;

class HostileRunTest : public PlanTest {
protected:
  HostileRunTest() { writer.input("x", tensorType(DType::Float, {4})); }
  void SetUp() override { ASSERT_FALSE(bool(writeTensors(path("in"), {{"x", at::ones({4})}}))); }
  StageWriter &stage() { return writer.stage(0); }
  /// A sum over one element, read without end.
  uint32_t endlessSum(uint32_t one, const std::string &module) {
    const uint32_t sizes = stage().constant(integers({kEndless})), nothing = stage().constant(none());
    plan::Constant no = integer(0);
    no.kind = plan::ConstantKind::Bool;
    const uint32_t wide = stage().call("aten::expand", {one, sizes, stage().constant(no)}, module);
    return stage().call("aten::sum", {wide, nothing}, module);
  }
  /// The one line of a run that must fail.
  std::string refusal(std::vector<llvm::StringRef> more = {}) {
    const uint32_t result = stage().output(stage().call("aten::neg", {stage().input(0)}));
    writer.output("y", 0, result);
    writer.write(path("plan"));
    writer.plan->programs[0]->setup = setup;
    const std::vector<uint8_t> bytes = plan::encode(*writer.plan);
    plan::writeFile(path("plan") + "/" + plan::kPlanFileName, llvm::toStringRef(bytes));
    const std::string plan = path("plan"), inputs = path("in"), outputs = path("out");
    std::vector<llvm::StringRef> arguments = {"run", plan, "--inputs", inputs, "--outputs", outputs};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = runCleave(arguments);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(llvm::StringRef(outcome.err).count('\n'), 1u) << outcome.err;
    return outcome.err;
  }

  /// Of two ranks, of which most tests use the first.
  PlanWriter writer{{0, 1}};
  /// How many of the first instructions run once, when the plan is loaded.
  uint32_t setup = 0;
};

TEST_F(HostileRunTest, EndsAKernelWithoutEnd) {
  const uint32_t one = stage().weight("w", at::ones({1}));
  stage().output(endlessSum(one, "net.slow"));
  writer.output("z", 0, 0);
  EXPECT_EQ(refusal({"--timeout", "1"}),
            "error: no result after 1 s: rank 0 (stage 0) is computing net.slow: aten::sum; "
            "allow more time (--timeout)\n");
}

TEST_F(HostileRunTest, EndsASetUpWithoutEnd) {
  const uint32_t one = stage().weight("w", at::ones({1}));
  endlessSum(one, "net.slow");
  setup = 2;
  EXPECT_EQ(refusal({"--load-timeout", "1", "--timeout", "1000"}),
            "error: not loaded after 1 s: rank 0 (stage 0): net.slow: aten::sum prepares what "
            "requests read; allow more time (--load-timeout)\n");
}

// Nothing waits for the rank that goes on.
TEST_F(HostileRunTest, EndsWithTheFirstFailure) {
  stage().output(
      stage().call("aten::view", {stage().input(0), stage().constant(integers({3}))}, "net.wrong"));
  StageWriter &second = writer.stage(1);
  const uint32_t nothing = second.constant(none());
  plan::Constant no = integer(0);
  no.kind = plan::ConstantKind::Bool;
  const uint32_t sizes = second.constant(integers({kEndless}));
  const uint32_t one = second.weight("w", at::ones({1}));
  const uint32_t wide = second.call("aten::expand", {one, sizes, second.constant(no)});
  writer.output("z", 1, second.output(second.call("aten::sum", {wide, nothing})));
  EXPECT_THAT(refusal({"--timeout", "1000"}), StartsWith("error: rank 0 (stage 0): net.wrong: aten::view: "));
}

TEST_F(HostileRunTest, HoldsPlansToTheirMemory) {
  stage().weight("w", at::ones({1000}));
  writer.plan->memory_limits = {1, 0};
  EXPECT_EQ(
      refusal(),
      "error: rank 0: the plan needs 4000 bytes of memory there, and limits the device to 1; compile the "
      "model again, for devices with more (--device-memory)\n");
}

TEST_F(HostileRunTest, HoldsRequestsToTheMemoryOfThePlan) {
  // 80 MB, of which the plan says nothing.
  const uint32_t sizes = stage().constant(integers({20'000'000})), nothing = stage().constant(none());
  stage().output(stage().call("aten::zeros", {sizes, nothing, nothing, nothing, nothing}, "net.large"));
  writer.output("z", 0, 0);
  writer.plan->memory_limits = {1000, 0};
  EXPECT_THAT(
      refusal(),
      StartsWith("error: rank 0 (stage 0): net.large: aten::zeros: cpu:0: 80000000 bytes wanted, 0 of "));
}

} // namespace cleave::runtime
