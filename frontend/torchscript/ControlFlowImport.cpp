//===- ControlFlowImport.cpp - Branches and loops to IR -------------------===//
#include "frontend/torchscript/TorchScriptImporter.h"
#include "frontend/torchscript/TypeConversion.h"
#include "mlir/IR/Matchers.h"
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

using namespace mlir;

namespace cleave {

FailureOr<SmallVector<Value>> TorchScriptImporter::changedLists(Node *node, Scope &scope) {
  SmallVector<Value> changed;
  for (const torch::jit::Value *value : Lists::changedInside(node)) {
    auto *list = std::get_if<Value>(&scope.at(value));
    if (!list || !lists.isOwned(*list))
      return error() << "changes a list or dict inside a branch or loop that another value may hold; return "
                        "a new one "
                     << "from it instead";
    if (!llvm::is_contained(changed, *list))
      changed.push_back(*list);
  }
  return changed;
}

LogicalResult TorchScriptImporter::importIf(Node *node, Scope &scope) {
  auto condition = valueOf(node->input(), scope, node);
  if (failed(condition))
    return failure();
  if (IntegerAttr known; matchPattern(*condition, m_Constant(&known))) {
    const torch::jit::Block *taken = node->blocks()[known.getValue().isZero() ? 1 : 0];
    if (failed(importBlock(taken, scope)))
      return failure();
    for (auto [output, result] : llvm::zip(node->outputs(), taken->outputs()))
      scope[output] = scope.at(result);
    return success();
  }
  auto changed = changedLists(node, scope);
  if (failed(changed))
    return failure();
  SmallVector<Type> types = resultTypes(node);
  llvm::append_range(types, ValueRange(*changed).getTypes());
  auto branch = b.create<IfOp>(location(), types, *condition);
  SmallVector<States, 2> after;
  for (auto [block, region] : llvm::zip(node->blocks(), branch->getRegions())) {
    auto before = lists.snapshot();
    States outside = states;
    region.emplaceBlock();
    if (failed(importRegion(block, region, *changed, scope)))
      return failure();
    lists.restore(std::move(before));
    after.push_back(std::exchange(states, std::move(outside)));
  }
  branch = addStates(branch, after);
  bindResults(node, scope, branch);
  for (auto [list, now] : llvm::zip(*changed, branch.getResults().drop_front(node->outputs().size())))
    lists.setCurrent(list, now);
  return success();
}

IfOp TorchScriptImporter::addStates(IfOp branch, ArrayRef<States> after) {
  SmallVector<Type> types(branch.getResultTypes());
  SmallVector<size_t> changed;
  for (size_t i = 0; i < states.size(); ++i)
    if (after[0][i] != states[i] || after[1][i] != states[i]) {
      changed.push_back(i);
      types.push_back(stateType(i));
    }
  if (changed.empty())
    return branch;
  auto whole = b.create<IfOp>(branch.getLoc(), types, branch.getCondition());
  for (auto [from, to, values] : llvm::zip(branch->getRegions(), whole->getRegions(), after)) {
    to.takeBody(from);
    Operation *yield = to.front().getTerminator();
    for (size_t i : changed)
      yield->insertOperands(yield->getNumOperands(), lists.current(values[i]));
  }
  for (auto [i, result] : llvm::zip(changed, whole.getResults().take_back(changed.size())))
    states[i] = result;
  branch.erase();
  return whole;
}

/// Loops with more nodes in all iterations together stay loops.
static constexpr int64_t kMaxUnrolled = 10000;

static int64_t nodesIn(const torch::jit::Block *block) {
  int64_t count = 0;
  for (const torch::jit::Node *node : block->nodes()) {
    ++count;
    for (const torch::jit::Block *inner : node->blocks())
      count += nodesIn(inner);
  }
  return count;
}

LogicalResult TorchScriptImporter::unrollLoop(Node *node, int64_t trips, Scope &scope) {
  const torch::jit::Block *body = node->blocks()[0];
  SmallVector<Binding> carried;
  for (const torch::jit::Value *init : node->inputs().slice(2))
    carried.push_back(scope.at(init));
  for (int64_t trip = 0; trip < trips; ++trip) {
    scope[body->inputs()[0]] = constant(b.getI64IntegerAttr(trip), b.getI64Type());
    for (auto [input, value] : llvm::zip(body->inputs().slice(1), carried))
      scope[input] = value;
    if (failed(importBlock(body, scope)))
      return failure();
    for (auto [output, value] : llvm::zip(body->outputs().slice(1), carried))
      value = scope.at(output);
  }
  for (auto [output, value] : llvm::zip(node->outputs(), carried))
    scope[output] = value;
  return success();
}

LogicalResult TorchScriptImporter::importLoop(Node *node, Scope &scope) {
  auto operands = operandsOf(node, scope);
  if (failed(operands))
    return failure();
  const torch::jit::Block *body = node->blocks()[0];
  IntegerAttr trips, begins;
  auto goesOn = torch::jit::constant_as<bool>(const_cast<torch::jit::Value *>(body->outputs()[0]));
  if (matchPattern((*operands)[0], m_Constant(&trips)) && matchPattern((*operands)[1], m_Constant(&begins)) &&
      !begins.getValue().isZero() && goesOn.value_or(false) &&
      trips.getInt() <= kMaxUnrolled / std::max<int64_t>(nodesIn(body), 1))
    return unrollLoop(node, trips.getInt(), scope);
  auto changed = changedLists(node, scope);
  if (failed(changed))
    return failure();
  SmallVector<Value> inits(ArrayRef<Value>(*operands).drop_front(2));
  SmallVector<Type> types = resultTypes(node);
  for (const torch::jit::Value *init : node->inputs().slice(2))
    if (auto *value = std::get_if<Value>(&scope.at(init)))
      lists.share(*value);
  for (Value list : *changed) {
    inits.push_back(lists.current(list));
    types.push_back(list.getType());
  }
  for (size_t i = 0; i < states.size(); ++i) {
    inits.push_back(lists.current(states[i]));
    types.push_back(stateType(i));
  }
  auto loop = b.create<LoopOp>(location(), types, (*operands)[0], (*operands)[1], inits);
  Block &entry = loop.getBody().emplaceBlock();
  for (const torch::jit::Value *input : body->inputs())
    scope[input] = Value(entry.addArgument(convertType(input->type(), b.getContext()), location()));
  for (Value list : *changed)
    lists.setCurrent(list, entry.addArgument(list.getType(), location()));
  // All states, since only the import of the body tells which of them it sets.
  for (size_t i = 0; i < states.size(); ++i)
    states[i] = entry.addArgument(stateType(i), location());
  if (failed(importRegion(body, loop.getBody(), *changed, scope)))
    return failure();
  Operation *yield = entry.getTerminator();
  for (Value state : states)
    yield->insertOperands(yield->getNumOperands(), lists.current(state));
  bindResults(node, scope, loop);
  ValueRange added = ValueRange(loop.getResults()).drop_front(node->outputs().size());
  for (auto [list, now] : llvm::zip(*changed, added))
    lists.setCurrent(list, now);
  states.assign(added.begin() + changed->size(), added.end());
  return success();
}

LogicalResult TorchScriptImporter::importRegion(const torch::jit::Block *block, Region &region,
                                                ArrayRef<Value> changed, Scope &scope) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&region.front());
  auto before = lists.snapshot();
  if (failed(importBlock(block, scope)))
    return failure();
  SmallVector<Value> results;
  for (const torch::jit::Value *output : block->outputs()) {
    auto value = valueOf(output, scope, const_cast<Node *>(block->return_node()));
    if (failed(value))
      return failure();
    results.push_back(*value);
    lists.share(std::get<Value>(scope.at(output)));
  }
  for (Value list : changed)
    results.push_back(lists.current(list));
  b.create<YieldOp>(location(), results);
  // A change inside a call was not found in advance.
  for (auto [list, now] : lists.snapshot())
    if (now != before.lookup(list) && !llvm::is_contained(changed, list) && list.getParentRegion() != &region)
      return error()
             << "changes a list or dict in a function that a branch or loop calls; return a new one instead";
  return success();
}

} // namespace cleave
