//===- Recompute.cpp - Activation recomputation ---------------------------===//
#include "ir/autograd/Recompute.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/ModuleList.h"
#include "ir/OperatorDialect.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/autograd/MinimumCut.h"
#include "ir/semantics/AttentionCores.h"
#include "ir/semantics/OpSemantics.h"
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
      : function(function), body(function.getBody().front()), loss(loss), segmentOf(segmentOf) {}

  void run(RecomputeKind kind);

private:
  bool isBackward(Operation *op) const { return loss->isBeforeInBlock(op); }
  StringRef segment(Operation *op);
  bool mayClone(Operation *op);
  bool hasBackwardReader(Operation *op) const;
  bool isReadByOtherSegment(Operation *op);
  bool isRecomputed(Operation *op) { return op && mayClone(op) && (!chosen || chosen->contains(op)); }
  std::vector<Operation *> forwardOperations();
  void chooseAttentionCores();
  void chooseByMinimumCut();
  void addClones(StringRef name, ArrayRef<Operation *> users);
  /// Clones `op`, after its operands that are recomputed in segment `name`. Records the clones in `clones`.
  void clone(Operation *op, StringRef name, OpBuilder &b, IRMapping &clones);

  func::FuncOp function;
  Block &body;
  Operation *const loss;
  const SegmentFn &segmentOf;
  llvm::StringMap<std::string> segments;
  llvm::DenseMap<Operation *, bool> cloneable;
  /// Of the operations that may be cloned, those that are; nothing: all.
  std::optional<llvm::DenseSet<Operation *>> chosen;
};
} // namespace

StringRef Recomputation::segment(Operation *op) {
  auto [entry, isNew] = segments.try_emplace(modulePath(op));
  if (isNew)
    entry->second = segmentOf(entry->first());
  return entry->second;
}

/// True if a second call gives the same results and changes nothing.
static bool isRepeatable(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return isMemoryEffectFree(op) || isa<ListOp, UnpackOp>(op);
  return !call.getSchema().writesAnyArgument() && !semanticsOf(call.getName()).hasSideEffects &&
         !isRandom(call);
}

/// True if `op` may be cloned into the backward pass: a repeatable forward operation of a segment, without
/// regions, whose results no backward operation of another segment reads.
bool Recomputation::mayClone(Operation *op) {
  if (op->getBlock() != &body || isBackward(op) || op->getNumOperands() == 0)
    return false;
  auto [entry, isNew] = cloneable.try_emplace(op, false);
  if (!isNew)
    return entry->second;
  const StringRef own = segment(op);
  bool may = op != loss && !own.empty() && op->getNumRegions() == 0 && isRepeatable(op);
  for (Operation *user : op->getUsers()) {
    Operation *here = body.findAncestorOpInBlock(*user);
    may &= !here || !isBackward(here) || segment(here) == own;
  }
  return cloneable[op] = may;
}

//===- Choosing what is recomputed ----------------------------------------===//

std::vector<Operation *> Recomputation::forwardOperations() {
  std::vector<Operation *> found;
  for (Operation &op : body)
    if (!isBackward(&op))
      found.push_back(&op);
  return found;
}

void Recomputation::chooseAttentionCores() {
  const GradientFlow flow(function);
  chosen.emplace();
  const std::vector<Operation *> operations = forwardOperations();
  for (const AttentionCore &core : attentionCores(operations, flow))
    chosen->insert(core.operations.begin(), core.operations.end());
  // With them masks and dropout's random numbers, which nothing else in the forward pass reads.
  for (Operation *op : llvm::reverse(operations)) {
    auto isInCore = [&](Operation *user) { return chosen->contains(user); };
    auto isBackwardOrInCore = [&](Operation *user) {
      Operation *here = body.findAncestorOpInBlock(*user);
      return isInCore(user) || (here && isBackward(here));
    };
    if (!flow.isDifferentiated(op) && llvm::any_of(op->getUsers(), isInCore) &&
        llvm::all_of(op->getUsers(), isBackwardOrInCore))
      chosen->insert(op);
  }
}

bool Recomputation::hasBackwardReader(Operation *op) const {
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    Operation *here = body.findAncestorOpInBlock(*user);
    return here && isBackward(here);
  });
}

/// True if an operation of another segment that may be cloned reads a result. Its clone would read it, too.
bool Recomputation::isReadByOtherSegment(Operation *op) {
  return llvm::any_of(op->getUsers(),
                      [&](Operation *user) { return mayClone(user) && segment(user) != segment(op); });
}

/// True if it takes about as long as its operands take to read.
static bool isCheap(Operation *op) {
  auto call = dyn_cast<OperatorOp>(op);
  const OpSemantics *semantics = call ? &semanticsOf(call.getName()) : nullptr;
  return !semantics || (semantics->isKnown && !semantics->isContraction && !semantics->collective &&
                        !semantics->drawsByKey);
}

/// Bytes that saving the results takes; nothing if all of them are views of other values.
static std::optional<int64_t> bytesToSave(Operation *op, const ExampleShapes &shapes) {
  bool areViews = true;
  int64_t bytes = 0;
  for (Value result : op->getResults()) {
    // What is returned is there at the end anyway.
    if (llvm::any_of(result.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); }))
      continue;
    areViews &= storageOf(result) != result || isa<ListOp, TupleOp>(op);
    bytes += shapes.bytesOf(result);
  }
  return areViews ? std::nullopt : std::optional(bytes);
}

void Recomputation::chooseByMinimumCut() {
  const ExampleShapes shapes(function);
  const std::vector<Operation *> operations = forwardOperations();
  std::vector<ForwardValue> values;
  llvm::DenseMap<Operation *, unsigned> index;
  for (Operation *op : operations) {
    if (op->getNumOperands() == 0)
      continue;
    index[op] = values.size();
    ForwardValue &value = values.emplace_back();
    value.bytes = bytesToSave(op, shapes);
    value.mayRecompute = mayClone(op) && isCheap(op) && !isReadByOtherSegment(op);
    value.isRead = hasBackwardReader(op);
    if (!value.mayRecompute && !value.bytes)
      value.bytes = shapes.bytesOf(storageOf(op->getResult(0)));
    for (Value operand : op->getOperands())
      if (auto maker = index.find(operand.getDefiningOp()); maker != index.end())
        value.operands.push_back(maker->second);
  }
  const std::vector<bool> recomputed = recomputedByMinimumCut(values);
  chosen.emplace();
  for (auto [op, number] : index)
    if (recomputed[number])
      chosen->insert(op);
}

//===- Cloning ------------------------------------------------------------===//

void Recomputation::clone(Operation *op, StringRef name, OpBuilder &b, IRMapping &clones) {
  // An operation is cloned when it is on top and its operands are.
  SmallVector<Operation *> due{op};
  while (!due.empty()) {
    Operation *top = due.back();
    const size_t size = due.size();
    if (!clones.contains(top))
      for (Value operand : top->getOperands())
        if (Operation *maker = operand.getDefiningOp();
            isRecomputed(maker) && segment(maker) == name && !clones.contains(maker))
          due.push_back(maker);
    if (due.size() > size)
      continue;
    due.pop_back();
    if (!clones.contains(top))
      clones.map(top, b.clone(*top, clones));
  }
}

void Recomputation::addClones(StringRef name, ArrayRef<Operation *> users) {
  IRMapping clones;
  for (Operation *user : users) {
    OpBuilder b(user);
    for (OpOperand &operand : user->getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      if (!isRecomputed(maker) || segment(maker) != name)
        continue;
      clone(maker, name, b, clones);
      operand.set(clones.lookup(operand.get()));
    }
  }
}

void Recomputation::run(RecomputeKind kind) {
  if (kind == RecomputeKind::Selective)
    chooseAttentionCores();
  if (kind == RecomputeKind::MinimumCut)
    chooseByMinimumCut();
  // By segment: the operations of its backward pass that read what is recomputed, in order.
  llvm::MapVector<StringRef, SmallVector<Operation *>> readers;
  for (Operation &op : body)
    if (isBackward(&op) && op.getNumRegions() == 0)
      if (llvm::any_of(op.getOperands(),
                       [&](Value operand) { return isRecomputed(operand.getDefiningOp()); }))
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

LogicalResult recompute(func::FuncOp function, RecomputeKind kind, const SegmentFn &segmentOf) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands())
    if (function.getResultAttr(result.getOperandNumber(), kLossAttr))
      if (Operation *loss = lossOperation(function, result.get())) {
        Recomputation(function, segmentOf, loss).run(kind);
        return success();
      }
  return function.emitError() << "found no loss among the results, expected a function with gradients; run "
                              << "differentiate first";
}

} // namespace cleave
