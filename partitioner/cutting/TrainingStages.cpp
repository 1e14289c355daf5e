//===- TrainingStages.cpp - Stages of a backward pass ---------------------===//
#include "partitioner/cutting/TrainingStages.h"
#include "ir/OperatorDialect.h"
#include "ir/UsedValues.h"
#include "ir/autograd/ForwardPart.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/IRMapping.h"
#include <set>

using namespace mlir;

namespace cleave {

/// Operations that each program makes for itself.
static bool isRepeated(Operation *op) {
  return isa<ParamOp, ConstantOp, PerRankOp, FirstRankOp, SizeOp, ListOp, TupleOp, DictOp>(op) &&
         isMemoryEffectFree(op);
}

std::optional<TrainingStages> TrainingStages::of(func::FuncOp function) {
  bool hasGradients = false;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    hasGradients |= bool(function.getResultAttr(i, kGradientAttr));
  for (AccumulateOp sum : function.getOps<AccumulateOp>())
    hasGradients |= sum->hasAttr(kGradientAttr);
  if (!hasGradients)
    return std::nullopt;
  TrainingStages stages(function);
  stages.forwardPart = forwardOperations(function);
  for (Operation &op : function.getBody().front().without_terminator())
    if (auto number = forwardNumberOf(&op); number && stages.isBackward(&op))
      stages.backward[*number].push_back(&op);
  stages.makeCopy();
  return stages;
}

bool TrainingStages::isBackward(Operation *op) const { return !forwardPart.contains(op) && !isRepeated(op); }

void TrainingStages::makeCopy() {
  IRMapping map;
  copy = cast<func::FuncOp>(function->clone(map));
  Block &from = function.getBody().front(), &to = copy->getBody().front();
  SmallVector<Operation *> copied;
  for (auto [original, own] : llvm::zip(from.without_terminator(), to.without_terminator())) {
    originals[&own] = &original;
    copied.push_back(&own);
  }
  llvm::BitVector gradients(copy->getNumResults());
  for (unsigned i = 0; i < gradients.size(); ++i)
    gradients[i] = bool(copy->getResultAttr(i, kGradientAttr));
  to.getTerminator()->eraseOperands(gradients);
  copy->eraseResults(gradients);
  for (Operation *own : llvm::reverse(copied))
    if (!forwardPart.contains(originals.lookup(own)) && own->use_empty()) {
      originals.erase(own);
      own->erase();
    }
}

ArrayRef<Operation *> TrainingStages::backwardOf(Operation *copied) const {
  auto number = forwardNumberOf(copied);
  auto found = number ? backward.find(*number) : backward.end();
  return found == backward.end() ? ArrayRef<Operation *>() : ArrayRef<Operation *>(found->second);
}

static std::optional<int64_t> stageOf(Operation *op) {
  auto stage = op ? op->getAttrOfType<IntegerAttr>(kStageIndexAttr) : IntegerAttr();
  return stage ? std::optional(stage.getInt()) : std::nullopt;
}

static const OpSemantics &semanticsOf(Operation *op) {
  static const OpSemantics none;
  auto call = dyn_cast<OperatorOp>(op);
  return call ? cleave::semanticsOf(call.getName()) : none;
}

/// The product or sum that gives the gradient of a weight, with the views that it alone takes, and what
/// is made of it alone by views, casts and elementwise operations.
llvm::DenseSet<Operation *> TrainingStages::weightOperations() {
  llvm::DenseSet<Operation *> found;
  Operation *terminator = function.getBody().front().getTerminator();
  // Operations to look at, and whether they are in front of the product.
  SmallVector<std::pair<Operation *, bool>> open;
  for (OpOperand &result : terminator->getOpOperands())
    if (Operation *maker = result.get().getDefiningOp();
        maker && function.getResultAttr(result.getOperandNumber(), kGradientAttr))
      open.push_back({maker, false});
  for (AccumulateOp sum : function.getOps<AccumulateOp>())
    if (isBackward(sum))
      open.push_back({sum, false});
  while (!open.empty()) {
    auto [op, isInFront] = open.pop_back_val();
    const OpSemantics &semantics = semanticsOf(op);
    auto isOfWeight = [&](Operation *user) { return user == terminator || found.contains(user); };
    if (found.contains(op) || !isBackward(op) || !llvm::all_of(op->getUsers(), isOfWeight) ||
        (isInFront && !semantics.isView))
      continue;
    found.insert(op);
    const bool isProduct =
        isa<OperatorOp>(op) && !semantics.isView && !semantics.mayBeView && !semantics.isElementwise;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        open.push_back({maker, isInFront || isProduct});
  }
  return found;
}

/// Operations of the body that use a result of `op`, directly or in a list, tuple or dictionary, which each
/// stage builds for itself.
static SmallVector<Operation *> readersOf(Operation *op) {
  SmallVector<Operation *> readers, open(op->getUsers());
  while (!open.empty()) {
    Operation *user = op->getBlock()->findAncestorOpInBlock(*open.pop_back_val());
    if (isRepeated(user))
      llvm::append_range(open, user->getUsers());
    else
      readers.push_back(user);
  }
  return readers;
}

void TrainingStages::assignBackward() {
  Block &body = function.getBody().front();
  llvm::DenseMap<int64_t, int64_t> stageOfNumber;
  for (Operation &op : body.without_terminator())
    if (auto number = forwardNumberOf(&op), stage = stageOf(&op);
        number && stage && forwardPart.contains(&op)) {
      auto [known, isNew] = stageOfNumber.try_emplace(*number, *stage);
      known->second = std::max(known->second, *stage);
    }
  const llvm::DenseSet<Operation *> ofWeights = weightOperations();
  Builder b(function.getContext());
  for (Operation &op : llvm::reverse(body.without_terminator())) {
    if (!isBackward(&op) || isa<AccumulateOp>(op))
      continue;
    int64_t stage = 0;
    if (auto number = forwardNumberOf(&op))
      if (auto known = stageOfNumber.find(*number); known != stageOfNumber.end())
        stage = known->second;
    for (Operation *user : readersOf(&op))
      if (isBackward(user) && !isa<AccumulateOp>(user))
        stage = std::max(stage, stageOf(user).value_or(0));
    for (Value value : usedValues(&op))
      if (Operation *maker = value.getDefiningOp(); maker && forwardPart.contains(maker))
        stage = std::max(stage, stageOf(maker).value_or(0));
    // What goes to another stage, as a term of the gradient of a tied weight does, is sent as other
    // gradients.
    const bool isOfWeight = ofWeights.contains(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
                              return user == body.getTerminator() || isa<AccumulateOp>(user) ||
                                     (stageOf(user) == stage && phaseOf(user) == Phase::BackwardWeight);
                            });
    op.setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage));
    op.setAttr(PhaseAttr::name,
               PhaseAttr::get(b.getContext(), isOfWeight ? Phase::BackwardWeight : Phase::BackwardInput));
  }
  placeSums();
  mergeLonePhases();
}

/// Adds each term where it is made; what no operation of a stage makes, in the last one.
void TrainingStages::placeSums() {
  Builder b(function.getContext());
  int64_t last = 0;
  for (Operation &op : function.getBody().front().without_terminator())
    last = std::max(last, stageOf(&op).value_or(0));
  for (AccumulateOp sum : function.getOps<AccumulateOp>()) {
    if (!isBackward(sum))
      continue;
    Operation *maker = sum.getValue().getDefiningOp();
    auto stage = maker ? stageOf(maker) : std::nullopt;
    sum->setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage.value_or(last)));
    if (stage && isBackward(maker))
      sum->setAttr(PhaseAttr::name, maker->getAttr(PhaseAttr::name));
  }
}

/// A stage has gradients of weights beside gradients of inputs alone: without the latter, the former take
/// their place.
void TrainingStages::mergeLonePhases() {
  std::set<int64_t> withInputs;
  SmallVector<Operation *> ofWeights;
  for (Operation &op : function.getBody().front().without_terminator()) {
    const int64_t stage = stageOf(&op).value_or(-1);
    if (phaseOf(&op) == Phase::BackwardInput)
      withInputs.insert(stage);
    if (phaseOf(&op) != Phase::BackwardWeight)
      continue;
    ofWeights.push_back(&op);
    // Gradients of later stages come as inputs.
    for (Value value : usedValues(&op))
      if (Operation *maker = value.getDefiningOp(); maker && phaseOf(maker) == Phase::BackwardInput)
        withInputs.insert(stage);
  }
  for (Operation *op : ofWeights)
    if (!withInputs.count(*stageOf(op)))
      op->setAttr(PhaseAttr::name, PhaseAttr::get(function.getContext(), Phase::BackwardInput));
}

} // namespace cleave
