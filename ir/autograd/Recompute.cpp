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

StringRef nameOf(RecomputeKind kind) {
  switch (kind) {
  case RecomputeKind::Full:
    return "full";
  case RecomputeKind::Selective:
    return "selective";
  case RecomputeKind::MinimumCut:
    return "minimum-cut";
  }
  llvm_unreachable("all have names");
}

namespace {
class Recomputation {
public:
  Recomputation(func::FuncOp function, const SegmentFn &segmentOf, Operation *loss)
      : function(function), body(function.getBody().front()), loss(loss), segmentOf(segmentOf) {}

  /// Returns the number of clones.
  unsigned run(RecomputeKind kind);

private:
  bool isBackward(Operation *op) const {
    return loss->isBeforeInBlock(op) && !op->hasTrait<OpTrait::IsTerminator>();
  }
  /// The operation of the body that is `op`, or has it in a region, if it is of the backward pass; else null.
  Operation *backwardOperation(Operation *op) const {
    Operation *here = body.findAncestorOpInBlock(*op);
    return here && isBackward(here) ? here : nullptr;
  }
  StringRef segment(Operation *op);
  bool mayClone(Operation *op);
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
  unsigned cloneCount = 0;
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
  if (isMemoryEffectFree(op) || isa<ListOp, UnpackOp>(op))
    return true;
  // Dropout with p = 0 is random by its schema, but draws nothing.
  auto call = dyn_cast<OperatorOp>(op);
  return call && call.getSchema().isRandom && !isRandom(call) && !call.getSchema().writesAnyArgument() &&
         !semanticsOf(call.getName()).hasSideEffects;
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
  for (Operation *user : op->getUsers())
    if (Operation *here = backwardOperation(user))
      may &= segment(here) == own;
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
    auto isBackwardOrInCore = [&](Operation *user) { return isInCore(user) || backwardOperation(user); };
    if (!flow.isDifferentiated(op) && llvm::any_of(op->getUsers(), isInCore) &&
        llvm::all_of(op->getUsers(), isBackwardOrInCore))
      chosen->insert(op);
  }
}

/// True if an operation of another segment that may be cloned reads a result. Its clone would read it, too.
bool Recomputation::isReadByOtherSegment(Operation *op) {
  return llvm::any_of(op->getUsers(),
                      [&](Operation *user) { return mayClone(user) && segment(user) != segment(op); });
}

/// True if it takes about as long as its operands and results take to read and write.
static bool isCheap(Operation *op, const ExampleShapes &shapes) {
  auto call = dyn_cast<OperatorOp>(op);
  if (!call)
    return true;
  const OpSemantics &semantics = semanticsOf(call.getName());
  constexpr double kFlopsPerByte = 10;
  const OpWork work = workOf(op, shapes);
  return semantics.isKnown && !semantics.isContraction && !semantics.collective && !semantics.drawsByKey &&
         work.flops <= kFlopsPerByte * work.bytes;
}

/// Bytes that saving a value takes; nothing if it is a view of another value.
static std::optional<int64_t> bytesToSave(Value value, const ExampleShapes &shapes) {
  // What is returned is there at the end anyway.
  if (llvm::any_of(value.getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); }))
    return 0;
  const bool isView = storageOf(value) != value || isa<ListOp, TupleOp>(value.getDefiningOp());
  return isView ? std::nullopt : std::optional(shapes.bytesOf(value));
}

void Recomputation::chooseByMinimumCut() {
  const ExampleShapes shapes(function);
  std::vector<ForwardValue> values;
  llvm::DenseMap<Value, unsigned> index;
  for (Operation *op : forwardOperations()) {
    if (op->getNumOperands() == 0)
      continue;
    SmallVector<unsigned, 2> operands;
    for (Value operand : op->getOperands())
      if (auto known = index.find(operand); known != index.end())
        operands.push_back(known->second);
    // Operations with regions read what the forward pass saves.
    auto isRegionReader = [&](Operation *user) {
      Operation *here = backwardOperation(user);
      return here && here->getNumRegions() > 0;
    };
    const bool mayRecompute = mayClone(op) && isCheap(op, shapes) && !isReadByOtherSegment(op) &&
                              llvm::none_of(op->getUsers(), isRegionReader);
    for (Value result : op->getResults()) {
      index[result] = values.size();
      std::optional<int64_t> bytes = bytesToSave(result, shapes);
      if (!mayRecompute && !bytes)
        bytes = shapes.bytesOf(storageOf(result));
      const bool isRead =
          llvm::any_of(result.getUsers(), [&](Operation *user) { return backwardOperation(user); });
      values.push_back({bytes, mayRecompute, isRead, operands});
    }
  }
  const std::vector<bool> recomputed = recomputedByMinimumCut(values);
  chosen.emplace();
  for (auto [value, number] : index)
    if (recomputed[number])
      chosen->insert(value.getDefiningOp());
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
    if (clones.contains(top))
      continue;
    clones.map(top, b.clone(*top, clones));
    ++cloneCount;
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

unsigned Recomputation::run(RecomputeKind kind) {
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
  return cloneCount;
}

FailureOr<unsigned> recompute(func::FuncOp function, RecomputeKind kind, const SegmentFn &segmentOf) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &result : terminator->getOpOperands())
    if (function.getResultAttr(result.getOperandNumber(), kLossAttr))
      if (Operation *loss = result.get().getDefiningOp())
        return Recomputation(function, segmentOf, loss).run(kind);
  return function.emitError()
         << "found no result that is a loss, expected a function that computes gradients; "
         << "run the pass differentiate first";
}

} // namespace cleave
