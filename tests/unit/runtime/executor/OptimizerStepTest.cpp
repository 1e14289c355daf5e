//===- OptimizerStepTest.cpp - Updates of narrow weights ------------------===//
#include "runtime/executor/OptimizerStep.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cleave::runtime {

/// Two steps of SGD with momentum, of 70 elements: whole vectors and a rest.
static void checkSgd(at::ScalarType dtype, double tolerance) {
  plan::OptimizerConfig config;
  config.optimizer = plan::Optimizer::Sgd;
  config.momentum = 0.5;
  const at::Tensor start = at::linspace(1, 2, 70), gradient = at::linspace(-1, 1, 70);
  at::Tensor weight = start.to(dtype).clone(), momentum = at::zeros({70}, dtype);
  for (int step = 1; step <= 2; ++step)
    applyOptimizerStep(config, weight, {momentum},
                       {.gradient = gradient.to(dtype),
                        .learningRate = at::scalar_tensor(0.5, at::kFloat),
                        .stepNumber = at::scalar_tensor(step, at::kFloat),
                        .gradScale = std::nullopt,
                        .foundInf = at::zeros({}, at::kFloat)});
  EXPECT_LT((weight.to(at::kFloat) - (start - gradient * (0.5 + 0.75))).abs().max().item<double>(),
            tolerance);
  EXPECT_LT((momentum.to(at::kFloat) - gradient * 1.5).abs().max().item<double>(), tolerance);
}

TEST(OptimizerStepTest, SgdUpdatesEveryElement) {
  checkSgd(at::kFloat, 1e-6);
  checkSgd(at::kHalf, 4e-3);
  checkSgd(at::kBFloat16, 3e-2);
}

} // namespace cleave::runtime
