//===- Recompute.cpp - Activation recomputation ---------------------------===//
#include "ir/autograd/Recompute.h"
#include "ir/Cleave.h"
#include "ir/ModuleList.h"
#include "ir/OperatorDialect.h"
#include "ir/autograd/LossAttributes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

std::string moduleListItemSegment(StringRef path) { return moduleListItem(path).second.str(); }

namespace {
class Recomputation {
public:
  Recomputation(func::FuncOp function, const SegmentFn &segmentOf, Operation *loss)
      : body(function.getBody().front()), loss(loss), segmentOf(segmentOf) {}

  void run();

private:
  bool isBackward(Operation *op) const { return loss->isBeforeInBlock(op); }
  StringRef segment(Operation *op);
  bool isRecomputable(Operation *op);
  void addClones(StringRef name, ArrayRef<Operation *> users);
  /// Clones `op`, after its recomputable operands in segment `name`. Records the clones in `clones`.
  void clone(Operation *op, StringRef name, OpBuilder &b, IRMapping &clones);

  Block &body;
  Operation *const loss;
  const SegmentFn &segmentOf;
  llvm::StringMap<std::string> segments;
  llvm::DenseMap<Operation *, bool> recomputable;
};
} // namespace

StringRef Recomputation::segment(Operation *op) {
  auto [entry, isNew] = segments.try_emplace(modulePath(op));
  if (isNew)
    entry->second = segmentOf(entry->first());
  return entry->second;
}

/// True if `op` may be cloned into the backward pass: a forward operation of a segment, without regions, side
/// effects and random numbers, whose results no backward operation of another segment reads.
bool Recomputation::isRecomputable(Operation *op) {
  if (!op || op->getBlock() != &body || isBackward(op) || op->getNumOperands() == 0)
    return false;
  auto [entry, isNew] = recomputable.try_emplace(op, false);
  if (!isNew)
    return entry->second;
  auto call = dyn_cast<OperatorOp>(op);
  const bool isRandom = call && call.getSchema().isRandom;
  const StringRef own = segment(op);
  bool may = op != loss && !own.empty() && op->getNumRegions() == 0 && !isRandom &&
             (isMemoryEffectFree(op) || isa<ListOp, UnpackOp>(op));
  for (Operation *user : op->getUsers()) {
    Operation *here = body.findAncestorOpInBlock(*user);
    may &= !here || !isBackward(here) || segment(here) == own;
  }
  return recomputable[op] = may;
}

void Recomputation::clone(Operation *op, StringRef name, OpBuilder &b, IRMapping &clones) {
  // An operation is cloned when it is on top and its operands are.
  SmallVector<Operation *> due{op};
  while (!due.empty()) {
    Operation *top = due.back();
    const size_t size = due.size();
    if (!clones.contains(top))
      for (Value operand : top->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            isRecomputable(maker) && segment(maker) == name && !clones.contains(maker))
          due.push_back(maker);
    if (due.size() > size)
      continue;
    due.pop_back();
    if (!clones.contains(top))
      clones.map(top, b.clone(*top, clones));
  }
}

void Recomputation::addClones(StringRef name, ArrayRef<Operation *> users) {
  OpBuilder b(users.front());
  IRMapping clones;
  for (Operation *user : users)
    for (OpOperand &operand : user->getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      if (!isRecomputable(maker) || segment(maker) != name)
        continue;
      clone(maker, name, b, clones);
      operand.set(clones.lookup(operand.get()));
    }
}

void Recomputation::run() {
  // By segment: the operations of its backward pass that read what may be computed again, in order.
  llvm::MapVector<StringRef, SmallVector<Operation *>> readers;
  for (Operation &op : body)
    if (isBackward(&op) && op.getNumRegions() == 0)
      if (llvm::any_of(op.getOperands(),
                       [&](Value operand) { return isRecomputable(operand.getDefiningOp()); }))
        readers[segment(&op)].push_back(&op);
  for (auto &[name, users] : readers)
    addClones(name, users);
}

/// The operation that makes the loss; of a loss that is a sum over micro-batches, that of one of them.
static Operation *lossOperation(func::FuncOp function, Value result) {
  auto quotient = result.getDefiningOp<OperatorOp>();
  auto sum = quotient && quotient->hasAttr(PhaseAttr::name)
                 ? quotient->getOperand(0).getDefiningOp<ReadSumOp>()
                 : result.getDefiningOp<ReadSumOp>();
  if (sum)
    for (auto term : function.getOps<AccumulateOp>())
      if (term.getName() == sum.getName())
        return term.getValue().getDefiningOp();
  return result.getDefiningOp();
}

LogicalResult recompute(func::FuncOp function, const SegmentFn &segmentOf) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands())
    if (function.getResultAttr(result.getOperandNumber(), kLossAttr))
      if (Operation *loss = lossOperation(function, result.get())) {
        Recomputation(function, segmentOf, loss).run();
        return success();
      }
  return function.emitError() << "found no loss among the results, expected a function with gradients; run "
                              << "differentiate first";
}

} // namespace cleave
