//===- Float64Program.cpp -------------------------------------------------===//
#include "tools/driver/verify/Float64Program.h"
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>

namespace cleave {

using torch::jit::Block;
using torch::jit::Node;

static bool isNarrow(at::ScalarType dtype) {
  return at::isFloatingType(dtype) && dtype != at::kDouble && c10::elementSize(dtype) > 1;
}

static void widenDTypes(Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  const size_t count = schema ? std::min(schema->arguments().size(), node->inputs().size()) : 0;
  for (size_t i = 0; i < count; ++i) {
    if (schema->arguments()[i].name() != "dtype")
      continue;
    auto value = torch::jit::toIValue(node->input(i));
    if (!value || !value->isInt() || !isNarrow(at::ScalarType(value->toInt())))
      continue;
    torch::jit::WithInsertPoint before(node);
    node->replaceInput(i, node->owningGraph()->insertConstant(int64_t(at::kDouble)));
  }
}

static void widen(Block *block) {
  for (Node *node : block->nodes()) {
    for (Block *inner : node->blocks())
      widen(inner);
    widenDTypes(node);
    const bool isTensor = node->kind() == torch::jit::prim::Constant &&
                          node->hasAttribute(torch::jit::attr::value) &&
                          node->kindOf(torch::jit::attr::value) == torch::jit::AttributeKind::t;
    if (isTensor && isNarrow(node->t(torch::jit::attr::value).scalar_type()))
      node->t_(torch::jit::attr::value, node->t(torch::jit::attr::value).to(at::kDouble));
  }
}

std::shared_ptr<torch::jit::Graph> forwardInFloat64(const torch::jit::Module &module) {
  auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  widen(graph->block());
  return graph;
}

} // namespace cleave
