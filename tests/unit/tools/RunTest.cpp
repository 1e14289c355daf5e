//===- RunTest.cpp - What `cleave run` reads, prints and writes -----------===//
#include "runtime/base/TensorFile.h"
#include "tests/unit/runtime/TestModels.h"
#include "tests/unit/tools/RunCleave.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using testing::HasSubstr;

/// The two layers as a plan, and inputs for it.
class RunTest : public PlanTest {
protected:
  RunTest() : plan(path("two.plan")), inputs(path("in.safetensors")), outputs(path("out.safetensors")) {
    model.writer.write(plan);
    writeInputs({{"x", x}});
  }
  void writeInputs(std::vector<NamedTensor> tensors) { ASSERT_FALSE(bool(writeTensors(inputs, tensors))); }

  TwoLayers model;
  at::Tensor x = at::randn({5, 8});
  std::string plan, inputs, outputs;
};

TEST_F(RunTest, WritesTheOutputsByName) {
  Outcome outcome = runCleave({"run", plan, "--inputs", inputs, "--outputs", outputs});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("float32[5, 4]"));
  auto written = llvm::cantFail(readTensors(outputs));
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].name, "y");
  EXPECT_TRUE(at::allclose(written[0].tensor, model.expected(x), 1e-5, 1e-5));
}

TEST_F(RunTest, JsonHasThePromisedKeys) {
  Outcome outcome = runCleave({"run", plan, "--inputs", inputs, "--repeat", "20", "--devices", "cpu:0,cpu:3",
                               "--check-types", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  auto json = llvm::cantFail(llvm::json::parse(outcome.out));
  const llvm::json::Object &object = *json.getAsObject();
  EXPECT_GT(*object.getNumber("seconds"), 0);
  const llvm::json::Object &device = *(*object.getArray("devices"))[1].getAsObject();
  EXPECT_EQ(device.getString("name"), "cpu:3");
  EXPECT_EQ(device.getInteger("weight_bytes"), 4 * 4 * 16);
  EXPECT_GE(*device.getInteger("peak_bytes"), 4 * 4 * 16 + 4 * 5 * (16 + 4));
  EXPECT_GT(*device.getNumber("busy_seconds"), 0);
  const llvm::json::Object &output = *(*object.getArray("outputs"))[0].getAsObject();
  EXPECT_EQ(output.getString("name"), "y");
  EXPECT_EQ(output.getString("dtype"), "float32");
  EXPECT_EQ(*output.getArray("shape"), llvm::json::Array({5, 4}));
}

TEST_F(RunTest, ListsTheInputsThatItWants) {
  Outcome outcome = runCleave({"run", plan});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "error: no inputs were given, expected x float32[batch, 8]; pass --inputs with a safetensors "
            "file that has them by name\n");
}

TEST_F(RunTest, RefusesInputsOfOtherNames) {
  writeInputs({{"x", x}, {"xx", x}});
  Outcome unknown = runCleave({"run", plan, "--inputs", inputs});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_EQ(unknown.err,
            "error: " + inputs +
                ": tensor xx is no input of the plan, which takes x float32[batch, 8]; leave it out\n");
  writeInputs({{"xx", x}});
  EXPECT_EQ(runCleave({"run", plan, "--inputs", inputs}).err,
            "error: " + inputs + ": tensor xx is no input of the plan; did you mean x?\n");
  writeInputs({});
  EXPECT_EQ(runCleave({"run", plan, "--inputs", inputs}).err,
            "error: " + inputs + ": input x is missing, expected x float32[batch, 8]\n");
}

TEST_F(RunTest, FailureLeavesNoOutput) {
  writeInputs({{"x", at::ones({5, 7})}});
  Outcome outcome = runCleave({"run", plan, "--inputs", inputs, "--outputs", outputs, "--json"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              testing::StartsWith("error: input x: found float32[5, 7], expected float32[batch, 8]"));
  EXPECT_FALSE(llvm::sys::fs::exists(outputs));
}

TEST_F(RunTest, WrongUsageIsStatus2) {
  EXPECT_EQ(runCleave({"run"}).status, 2);
  EXPECT_EQ(runCleave({"run", plan, "--repeat", "0"}).status, 2);
  EXPECT_EQ(runCleave({"run", plan, "--timeout", "soon"}).status, 2);
}

} // namespace cleave::runtime
