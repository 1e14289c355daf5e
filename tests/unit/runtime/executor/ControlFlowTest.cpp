//===- ControlFlowTest.cpp - Blocks, lists, tuples, dicts -----------------===//
#include "tests/unit/runtime/TestModels.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave::runtime {

using plan::DType;
using plan::InstructionKind;

/// A plan of one stage with input `x : float32[n]`.
class ControlFlowTest : public PlanTest {
protected:
  ControlFlowTest() : writer({0}), stage(writer.stage(0)) {
    writer.symbol("n", 2);
    writer.input("x", tensorType(DType::Float, {-1}));
    x = stage.input(0);
  }
  at::Tensor run(const at::Tensor &input) {
    if (!session) {
      writer.output("y", 0, 0);
      session = open(writer);
    }
    return llvm::cantFail(session->run({input}))[0];
  }
  /// Whether the sum of `slot` is above 0.
  uint32_t isPositive(uint32_t slot) {
    uint32_t sum = stage.call("aten::sum", {slot, stage.constant(none())});
    return stage.call("aten::Bool.Tensor",
                      {stage.call("aten::gt.Scalar", {sum, stage.constant(integer(0))})});
  }

  PlanWriter writer;
  StageWriter &stage;
  uint32_t x;
  std::unique_ptr<Session> session;
};

TEST_F(ControlFlowTest, IfRunsOneBranch) {
  uint32_t condition = isPositive(x);
  uint32_t then = stage.block(0, [&](Slots) { return Slots{stage.call("aten::exp", {x})}; });
  uint32_t otherwise = stage.block(0, [&](Slots) { return Slots{x}; });
  stage.output(stage.emit(InstructionKind::If, {condition}, 1, {then, otherwise})[0]);
  EXPECT_TRUE(at::equal(run(at::ones({3})), at::ones({3}).exp()));
  EXPECT_TRUE(at::equal(run(-at::ones({3})), -at::ones({3})));
  EXPECT_TRUE(at::equal(run(at::ones({2})), at::ones({2}).exp()));
}

TEST_F(ControlFlowTest, LoopCountsItsTrips) {
  plan::Constant yes = integer(1);
  yes.kind = plan::ConstantKind::Bool;
  uint32_t always = stage.constant(yes), one = stage.constant(integer(1));
  uint32_t body = stage.block(2, [&](Slots params) {
    return Slots{always, stage.call("aten::add.Scalar", {params[1], params[0], one})};
  });
  stage.output(stage.emit(InstructionKind::Loop, {stage.constant(integer(4)), always, x}, 1, {body})[0]);
  EXPECT_TRUE(at::equal(run(at::zeros({2})), at::full({2}, 6.f)));
}

TEST_F(ControlFlowTest, LoopStopsWhenItsConditionDoes) {
  uint32_t two = stage.constant(integer(2)), one = stage.constant(integer(1));
  uint32_t body = stage.block(2, [&](Slots params) {
    uint32_t less = stage.call("aten::sub.Scalar", {params[1], two, one});
    return Slots{isPositive(less), less};
  });
  uint32_t trips = stage.constant(integer(INT64_MAX));
  stage.output(stage.emit(InstructionKind::Loop, {trips, isPositive(x), x}, 1, {body})[0]);
  EXPECT_TRUE(at::equal(run(at::full({2}, 5.f)), at::full({2}, -1.f)));
  EXPECT_TRUE(at::equal(run(at::full({2}, -5.f)), at::full({2}, -5.f)));
}

TEST_F(ControlFlowTest, LoopSwapsCarriedValuesAndReadsItsStart) {
  plan::Constant yes = integer(1);
  yes.kind = plan::ConstantKind::Bool;
  uint32_t always = stage.constant(yes), negated = stage.call("aten::neg", {x});
  uint32_t one = stage.constant(integer(1));
  // (a, b) -> (b, a + x), where x is also what a starts with.
  uint32_t body = stage.block(3, [&](Slots params) {
    return Slots{always, params[2], stage.call("aten::add.Tensor", {params[1], x, one})};
  });
  Slots results =
      stage.emit(InstructionKind::Loop, {stage.constant(integer(3)), always, x, negated}, 2, {body});
  stage.output(stage.call("aten::sub.Tensor", {results[0], results[1], one}));
  // (x, -x) (-x, 2x) (2x, 0) (0, 3x)
  EXPECT_TRUE(at::equal(run(at::ones({2})), at::full({2}, -3.f)));
}

TEST_F(ControlFlowTest, BlocksNest) {
  plan::Constant yes = integer(1);
  yes.kind = plan::ConstantKind::Bool;
  uint32_t always = stage.constant(yes), one = stage.constant(integer(1));
  uint32_t body = stage.block(2, [&](Slots params) {
    uint32_t condition = isPositive(params[1]);
    uint32_t then = stage.block(0, [&](Slots) { return Slots{stage.call("aten::neg", {params[1]})}; });
    uint32_t otherwise =
        stage.block(0, [&](Slots) { return Slots{stage.call("aten::sub.Scalar", {params[1], one, one})}; });
    return Slots{always, stage.emit(InstructionKind::If, {condition}, 1, {then, otherwise})[0]};
  });
  stage.output(stage.emit(InstructionKind::Loop, {stage.constant(integer(3)), always, x}, 1, {body})[0]);
  EXPECT_TRUE(at::equal(run(at::ones({2})), at::full({2}, -3.f)));
}

TEST_F(ControlFlowTest, ListsAreMadeAndUnpacked) {
  uint32_t negated = stage.call("aten::neg", {x}), zero = stage.constant(integer(0));
  uint32_t joined = stage.call("aten::cat", {stage.list("Tensor", {x, negated, x}), zero});
  uint32_t chunks = stage.call("aten::chunk", {joined, stage.constant(integer(3)), zero});
  Slots parts = stage.emit(InstructionKind::Unpack, {chunks}, 3);
  stage.output(stage.call("aten::sub.Tensor", {parts[0], parts[1], stage.constant(integer(1))}));
  EXPECT_TRUE(at::equal(run(at::ones({2})), at::full({2}, 2.f)));
}

TEST_F(ControlFlowTest, UnpackingAnotherNumberFails) {
  uint32_t zero = stage.constant(integer(0));
  uint32_t chunks = stage.call("aten::chunk", {x, stage.constant(integer(3)), zero});
  stage.output(stage.emit(InstructionKind::Unpack, {chunks}, 2)[0]);
  writer.output("y", 0, 0);
  EXPECT_EQ(failureOf(open(writer)->run({at::ones({3})})),
            "rank 0 (stage 0): Unpack: found 3 items, expected 2");
}

TEST_F(ControlFlowTest, TuplesCarryValues) {
  uint32_t pair = stage.emit(InstructionKind::Tuple, {x, stage.call("aten::neg", {x})}, 1)[0];
  Slots parts = stage.emit(InstructionKind::Unpack, {pair}, 2);
  stage.output(parts[1]);
  EXPECT_TRUE(at::equal(run(at::ones({2})), -at::ones({2})));
}

TEST_F(ControlFlowTest, DictsAreIndexedByKey) {
  uint32_t a = stage.constant(text("a")), b = stage.constant(text("b"));
  uint32_t dict =
      stage.emit(InstructionKind::Dict, {a, x, b, stage.call("aten::neg", {x})}, 1, {}, "str, Tensor")[0];
  stage.output(stage.call("aten::__getitem__.Dict_str", {dict, b}));
  EXPECT_TRUE(at::equal(run(at::ones({2})), -at::ones({2})));
}

TEST_F(ControlFlowTest, UnknownElementTypesAreRefused) {
  stage.list("Tensorr", {x});
  stage.output(x);
  EXPECT_THAT(openFailure(writer), testing::HasSubstr("rank 0 (stage 0): List: 'Tensorr' is no type: "));
}

} // namespace cleave::runtime
