//===- VerifyTrainingTest.cpp - Plans whose update is another -------------===//
#include "tests/unit/plan/PlanBuilder.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Verify.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

namespace cleave {

using plan::messageOf;

/// Writes a linear layer with a loss.
static void writeModel(const std::string &path) {
  torch::jit::Module module("Regression");
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{1});
  module.register_parameter("weight", at::randn({4, 8}, generator, at::kFloat).set_requires_grad(true),
                            /*is_buffer=*/false);
  module.register_parameter("bias", at::randn({4}, generator, at::kFloat).set_requires_grad(true),
                            /*is_buffer=*/false);
  module.define("def forward(self, x, target):\n"
                "  return torch.mean((torch.linear(x, self.weight, self.bias) - target) ** 2)\n");
  module.save(path);
}

static CompileOptions compileOptions(const plan::TestFolder &folder, const UpdateOptions &made) {
  CompileOptions options;
  options.model = folder.at("model.pt");
  options.output = folder.at("model.plan");
  options.inputs = {"x:f32[3,8]", "target:f32[3,4]"};
  options.gradients.emplace();
  options.gradients->update = made;
  return options;
}

/// Verifies a plan that makes the update `made` as if `expected` had been asked for.
static llvm::Expected<VerifyReport> verifyAs(const UpdateOptions &made, const UpdateOptions &expected) {
  plan::TestFolder folder;
  writeModel(folder.at("model.pt"));
  if (auto compiled = compile(compileOptions(folder, made)); !compiled)
    return compiled.takeError();
  VerifyOptions options;
  options.plan = folder.at("model.plan");
  options.model = folder.at("model.pt");
  options.update = expected;
  return verify(options);
}

static UpdateOptions update(const char *optimizer, std::optional<double> clipNorm = std::nullopt,
                            std::vector<std::string> noDecay = {}) {
  UpdateOptions options;
  options.optimizer = optimizer;
  options.clipNorm = clipNorm;
  options.noDecay = std::move(noDecay);
  return options;
}

struct Updates {
  const char *name;
  UpdateOptions made, expected;
};
class VerifyTraining : public testing::TestWithParam<Updates> {};

TEST_P(VerifyTraining, FindsAnotherUpdate) {
  const auto &[name, made, expected] = GetParam();
  auto same = verifyAs(made, made), other = verifyAs(made, expected);
  ASSERT_TRUE(bool(same)) << messageOf(same.takeError());
  ASSERT_TRUE(bool(other)) << messageOf(other.takeError());
  EXPECT_TRUE(same->ok()) << same->firstDifference()->name;
  EXPECT_FALSE(other->ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyTraining,
    testing::Values(Updates{"WeightDecay", update("adamw"), update("adamw(weight_decay=0.02)")},
                    Updates{"NoDecay", update("adamw", std::nullopt, {"bias"}), update("adamw")},
                    Updates{"Adam", update("adam(weight_decay=0.01)"), update("adamw(weight_decay=0.01)")},
                    Updates{"Beta2", update("adam"), update("adam(beta2=0.99)")},
                    Updates{"Nesterov", update("sgd(momentum=0.9)"),
                            update("sgd(momentum=0.9, nesterov=true)")},
                    Updates{"DecayOfSgd", update("sgd"), update("sgd(weight_decay=0.01)")},
                    Updates{"ClipNorm", update("sgd", 0.5), update("sgd", 0.501)}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace cleave
