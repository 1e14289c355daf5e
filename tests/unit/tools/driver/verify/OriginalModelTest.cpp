//===- OriginalModelTest.cpp - Calls that do not fit the module -----------===//
#include "tools/driver/verify/OriginalModel.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace cleave {

using plan::messageOf;
using plan::TreeKind;
using testing::HasSubstr;
using testing::IsEmpty;

static std::unique_ptr<plan::Tree> tree(TreeKind kind, uint32_t leaf = 0) {
  auto result = std::make_unique<plan::Tree>();
  result->kind = kind;
  result->leaf = leaf;
  return result;
}

/// What a call of `forward(self, <argument>)` whose plan has `given` as its only argument fails with.
static std::string callWith(const char *argument, std::vector<std::unique_ptr<plan::Tree>> given) {
  TorchScriptFile file{torch::jit::Module("m"), {}, "", nullptr};
  file.module.define(std::string("def forward(self, ") + argument + "):\n  return torch.ones([1])\n");
  auto inputs = tree(TreeKind::Dict);
  inputs->children = std::move(given);
  return messageOf(OriginalModel(file, *inputs).run(at::Tensor(at::ones({2}))));
}

static std::string call(const char *argument, std::unique_ptr<plan::Tree> given) {
  std::vector<std::unique_ptr<plan::Tree>> trees;
  trees.push_back(std::move(given));
  return callWith(argument, std::move(trees));
}

TEST(OriginalModel, CallsForward) {
  EXPECT_THAT(call("x", tree(TreeKind::Leaf)), IsEmpty());
  EXPECT_THAT(call("x: Optional[Tensor]", tree(TreeKind::None)), IsEmpty());
}

TEST(OriginalModel, RefusesTreesThatDoNotFit) {
  EXPECT_THAT(callWith("x", {}), HasSubstr("takes 1 arguments, the plan 0"));
  EXPECT_THAT(call("x", tree(TreeKind::Leaf, 7)), HasSubstr("forward takes an input of type Tensor"));
  EXPECT_THAT(call("x: int", tree(TreeKind::Fixed)), HasSubstr("forward takes an input of type int"));
  for (TreeKind kind : {TreeKind::Tuple, TreeKind::List, TreeKind::Dict, TreeKind(200)})
    EXPECT_THAT(call("x", tree(kind)), HasSubstr("compile it again"));
  // One element where two are taken; keys that are no strings.
  auto single = tree(TreeKind::Tuple);
  single->children.push_back(tree(TreeKind::Leaf));
  EXPECT_THAT(call("x: Tuple[Tensor, Tensor]", std::move(single)), HasSubstr("Tuple[Tensor, Tensor]"));
  EXPECT_THAT(call("x: Dict[float, Tensor]", tree(TreeKind::Dict)), HasSubstr("Dict[float, Tensor]"));
}

TEST(OriginalModel, RefusesBadConstants) {
  auto constant = [](plan::ConstantKind kind) {
    auto result = tree(TreeKind::Fixed);
    result->constant = std::make_unique<plan::Constant>();
    result->constant->kind = kind;
    result->constant->text = result->constant->element = "no such thing";
    return result;
  };
  EXPECT_THAT(call("x: int", constant(plan::ConstantKind::Device)), testing::Not(IsEmpty()));
  EXPECT_THAT(call("x: int", constant(plan::ConstantKind::List)), testing::Not(IsEmpty()));
  // Of another type than forward takes.
  EXPECT_THAT(call("x: int", constant(plan::ConstantKind::String)), HasSubstr("the original model raises"));
}

} // namespace cleave
