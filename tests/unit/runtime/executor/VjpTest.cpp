//===- VjpTest.cpp - Blocks under PyTorch's autograd ----------------------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;

/// A plan of one stage with input `x : float32[4]`, and a vjp of it.
class VjpTest : public PlanTest {
protected:
  VjpTest() : writer({0}), stage(writer.stage(0)) {
    writer.input("x", tensorType(DType::Float, {4}));
    x = stage.input(0);
    ones = stage.call("aten::ones_like",
                      {x, stage.constant(none()), stage.constant(none()), stage.constant(none()),
                       stage.constant(none()), stage.constant(none())});
  }
  /// A vjp of `body` at `inputs`, with ones as the gradient of its one value.
  Slots vjp(Slots inputs, size_t gradients, llvm::function_ref<uint32_t(Slots)> body) {
    const uint32_t block = stage.block(inputs.size(), [&](Slots params) { return Slots{body(params)}; });
    Slots operands{ones};
    operands.insert(operands.end(), inputs.begin(), inputs.end());
    return stage.emit(InstructionKind::Vjp, operands, gradients + 1, {block});
  }
  std::vector<at::Tensor> run(const at::Tensor &input, Slots results) {
    for (uint32_t slot : results)
      writer.output("y" + std::to_string(slot), 0, stage.output(slot));
    session = open(writer);
    auto outputs = session->run({input});
    if (outputs)
      return *outputs;
    ADD_FAILURE() << llvm::toString(outputs.takeError());
    return std::vector<at::Tensor>(results.size(), at::zeros({}));
  }

  PlanWriter writer;
  StageWriter &stage;
  uint32_t x, ones;
  std::unique_ptr<Session> session;
};

TEST_F(VjpTest, GivesGradientsAndValues) {
  const at::Tensor input = at::tensor({1.f, 2.f, -1.f, 0.5f}), weight = at::full({4}, 3.f);
  const uint32_t w = stage.weight("w", weight);
  Slots results = vjp({x, w}, 2, [&](Slots params) {
    return stage.call("aten::mul.Tensor", {stage.call("aten::sin", {params[0]}), params[1]});
  });
  const auto found = run(input, results);
  EXPECT_TRUE(at::allclose(found[0], input.cos() * 3));
  EXPECT_TRUE(at::allclose(found[1], input.sin()));
  EXPECT_TRUE(at::allclose(found[2], input.sin() * 3));
  EXPECT_FALSE(found[0].requires_grad() || found[2].requires_grad());
}

TEST_F(VjpTest, GradientsThatNothingDependsOnAreZero) {
  Slots results = vjp({x, ones}, 2, [&](Slots params) { return stage.call("aten::neg", {params[0]}); });
  const auto found = run(at::ones({4}), results);
  EXPECT_TRUE(at::equal(found[0], -at::ones({4})));
  EXPECT_TRUE(at::equal(found[1], at::zeros({4})));
}

TEST_F(VjpTest, BranchesOnData) {
  const uint32_t zero = stage.constant(integer(0)), nothing = stage.constant(none());
  Slots results = vjp({x}, 1, [&](Slots params) {
    const uint32_t sum = stage.call("aten::sum", {params[0], nothing});
    const uint32_t condition = stage.call("aten::Bool.Tensor", {stage.call("aten::gt.Scalar", {sum, zero})});
    const uint32_t then = stage.block(0, [&](Slots) { return Slots{stage.call("aten::exp", {params[0]})}; });
    const uint32_t otherwise = stage.block(0, [&](Slots) { return Slots{params[0]}; });
    return stage.emit(InstructionKind::If, {condition}, 1, {then, otherwise})[0];
  });
  EXPECT_TRUE(at::allclose(run(at::ones({4}), {results[0]})[0], at::ones({4}).exp()));
  EXPECT_TRUE(at::equal(llvm::cantFail(session->run({-at::ones({4})}))[0], at::ones({4})));
}

TEST_F(VjpTest, LargeProductsHaveGradients) {
  const at::Tensor weight = at::rand({2000, 4});
  plan::Constant isFalse = integer(0);
  isFalse.kind = plan::ConstantKind::Bool;
  const uint32_t w = stage.weight("w", weight), nothing = stage.constant(none()),
                 no = stage.constant(isFalse);
  Slots results = vjp({x, w}, 2, [&](Slots params) {
    const uint32_t rows = stage.call("aten::expand", {params[0], stage.constant(integers({2000, 4})), no});
    const uint32_t product = stage.call("aten::linear", {rows, params[1], nothing});
    const uint32_t sum = stage.call("aten::sum", {product, nothing});
    return stage.call("aten::mul.Tensor", {sum, params[0]});
  });
  const at::Tensor input = at::tensor({1.f, 2.f, -1.f, 0.5f});
  const auto found = run(input, {results[1]});
  EXPECT_TRUE(at::allclose(found[0], (input.sum() * 2000 * input).expand({2000, 4}), 1e-3));
}

TEST_F(VjpTest, SeesConjugatedInputs) {
  // Conjugation waits in a bit of the tensor.
  const uint32_t zero = stage.call("aten::mul.Scalar", {x, stage.constant(integer(0))});
  const uint32_t complex = stage.call("aten::conj", {stage.call("aten::complex", {zero, x})});
  Slots results = vjp({x, complex}, 2, [&](Slots params) {
    return stage.call("aten::imag", {stage.call("aten::mul.Tensor", {params[1], params[0]})});
  });
  const at::Tensor input = at::tensor({1.f, 2.f, -1.f, 0.5f});
  const auto found = run(input, {results[0], results[2]});
  // imag(conj(i·x) · x) = −x²; its gradient of the second factor is −x.
  EXPECT_TRUE(at::allclose(found[1], -input * input));
  EXPECT_TRUE(at::allclose(found[0], -input));
}

TEST_F(VjpTest, RefusesGradientsOfOtherShapes) {
  const uint32_t zero = stage.constant(integer(0));
  Slots results = vjp({x}, 1, [&](Slots params) {
    return stage.call("aten::cat", {stage.list("Tensor", {params[0], params[0]}), zero});
  });
  writer.output("y", 0, stage.output(results[0]));
  EXPECT_THAT(failureOf(open(writer)->run({at::ones({4})})),
              testing::HasSubstr("got [4] but expected shape compatible with [8]"));
}

} // namespace cleave::runtime
