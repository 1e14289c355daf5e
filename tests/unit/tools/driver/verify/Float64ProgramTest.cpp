//===- Float64ProgramTest.cpp - TorchScript in float64 --------------------===//
#include "tools/driver/verify/Float64Program.h"
#include "tools/driver/verify/OriginalModel.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cleave {

TEST(Float64Program, ComputesInFloat64WhatIsAskedForInFloat32) {
  TorchScriptFile file{torch::jit::Module("m"), {}, "", nullptr};
  // The numbers of bfloat16, float32 and int64.
  file.module.define("def scale(self, x):\n"
                     "  return x.to(6) * torch.full([1], 1 / 3, dtype=6)\n"
                     "def forward(self, x):\n"
                     "  return self.scale(x.to(15)), x.to(4)\n");
  plan::Tree inputs;
  inputs.kind = plan::TreeKind::Dict;
  inputs.children.push_back(std::make_unique<plan::Tree>());
  OriginalModel model(file, inputs);
  const at::Tensor third = at::full({1}, 1.0 / 3, at::kDouble);
  auto narrow = model.run(third);
  ASSERT_TRUE(bool(narrow));
  EXPECT_EQ((*narrow)[0].tensor.scalar_type(), at::kFloat);
  model.setProgram(forwardInFloat64(model.original()));
  auto wide = model.run(third);
  ASSERT_TRUE(bool(wide));
  EXPECT_EQ((*wide)[0].tensor.item<double>(), 1.0 / 3 / 3);
  EXPECT_EQ((*wide)[1].tensor.scalar_type(), at::kLong);
  // The module itself is as before.
  model.setProgram(nullptr);
  auto again = model.run(third);
  ASSERT_TRUE(bool(again));
  EXPECT_EQ((*again)[0].tensor.scalar_type(), at::kFloat);
}

} // namespace cleave
