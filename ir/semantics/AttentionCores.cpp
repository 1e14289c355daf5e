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
  /// True if the value comes from an inner product without a contraction in between. Adds the operations on
  /// the way to the core that is last in `cores`.
  bool leadsFromProduct(Value value);

  const GradientFlow &flow;
  std::vector<AttentionCore> cores;
  llvm::DenseMap<Operation *, size_t> coreOf;
  /// Operations that were looked at for the last core.
  llvm::DenseSet<Operation *> seen;
};
} // namespace

bool CoreFinder::leadsFromProduct(Value value) {
  auto op = value.getDefiningOp<OperatorOp>();
  if (!op || semanticsOf(op.getName()).collective)
    return false;
  const size_t core = cores.size() - 1;
  if (auto known = coreOf.find(op); known != coreOf.end())
    return known->second == core;
  if (!seen.insert(op).second)
    return false;
  bool leads = isInnerProduct(op, flow);
  if (!isContraction(op))
    for (Value operand : op->getOperands())
      leads |= leadsFromProduct(operand);
  if (leads) {
    coreOf[op] = core;
    cores.back().operations.push_back(op);
  }
  return leads;
}

std::vector<AttentionCore> CoreFinder::find(llvm::ArrayRef<Operation *> operations) {
  for (Operation *op : operations) {
    if (!isInnerProduct(op, flow))
      continue;
    cores.push_back({{}, op});
    seen.clear();
    bool leads = false;
    for (Value operand : op->getOperands())
      leads |= leadsFromProduct(operand);
    if (!leads)
      cores.pop_back();
  }
  return std::move(cores);
}

std::vector<AttentionCore> attentionCores(llvm::ArrayRef<Operation *> operations, const GradientFlow &flow) {
  return CoreFinder(flow).find(operations);
}

} // namespace cleave
