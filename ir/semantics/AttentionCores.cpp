//===- AttentionCores.cpp - What selective recomputation selects ----------===//
#include "ir/semantics/AttentionCores.h"
#include "ir/semantics/OpSemantics.h"

using namespace mlir;

namespace cleave {

static bool isContraction(Operation *op) {
  auto call = dyn_cast_or_null<OperatorOp>(op);
  return call && semanticsOf(call.getName()).isContraction;
}

/// A contraction of two values that both depend on the request.
static bool isInnerProduct(Operation *op, const GradientFlow &flow) {
  return isContraction(op) && flow.isDifferentiated(op) &&
         llvm::count_if(op->getOperands(), [&](Value operand) { return flow.dependsOnInputs(operand); }) >
             1 &&
         llvm::none_of(op->getOperands(), [&](Value operand) { return flow.isWeight(operand); });
}

namespace {
class CoreFinder {
public:
  explicit CoreFinder(const GradientFlow &flow) : flow(flow) {}
  std::vector<AttentionCore> find(llvm::ArrayRef<Operation *> operations);

private:
  AttentionCore coreBefore(Operation *last);

  const GradientFlow &flow;
  llvm::DenseMap<Operation *, unsigned> position;
  /// Inner products, and what is made of them up to the next contraction.
  llvm::DenseSet<Operation *> fromProduct;
  llvm::DenseSet<Operation *> inCore;
};
} // namespace

/// The operations that lead to `last` from an inner product without a contraction in between, other than
/// those of cores that are known.
AttentionCore CoreFinder::coreBefore(Operation *last) {
  std::vector<Operation *> reached, pending{last};
  llvm::DenseSet<Operation *> seen{last};
  while (!pending.empty()) {
    Operation *op = pending.back();
    pending.pop_back();
    if (op != last)
      reached.push_back(op);
    if (op == last || !isContraction(op))
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            fromProduct.contains(maker) && !inCore.contains(maker) && seen.insert(maker).second)
          pending.push_back(maker);
  }
  llvm::sort(reached, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
  AttentionCore core{{}, last};
  llvm::DenseSet<Operation *> leading;
  for (Operation *op : reached)
    if (isInnerProduct(op, flow) ||
        (!isContraction(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
          return leading.contains(operand.getDefiningOp());
        }))) {
      leading.insert(op);
      core.operations.push_back(op);
    }
  return core;
}

std::vector<AttentionCore> CoreFinder::find(llvm::ArrayRef<Operation *> operations) {
  std::vector<AttentionCore> cores;
  for (Operation *op : operations) {
    position[op] = position.size();
    if (isInnerProduct(op, flow)) {
      AttentionCore core = coreBefore(op);
      inCore.insert(core.operations.begin(), core.operations.end());
      if (!core.operations.empty())
        cores.push_back(std::move(core));
      fromProduct.insert(op);
      continue;
    }
    auto call = dyn_cast<OperatorOp>(op);
    auto isFromProduct = [&](Value operand) { return fromProduct.contains(operand.getDefiningOp()); };
    if (call && !isContraction(op) && !semanticsOf(call.getName()).collective &&
        llvm::any_of(op->getOperands(), isFromProduct))
      fromProduct.insert(op);
  }
  return cores;
}

std::vector<AttentionCore> attentionCores(llvm::ArrayRef<Operation *> operations, const GradientFlow &flow) {
  return CoreFinder(flow).find(operations);
}

} // namespace cleave
