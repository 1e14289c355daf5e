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

/// Operations without a stage of their own: each stage that reads their results has a copy.
static bool isCopiedIntoEachStage(Operation *op) {
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

bool TrainingStages::isBackward(Operation *op) const {
  return !forwardPart.contains(op) && !isCopiedIntoEachStage(op);
}

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

static const OpSemantics &semanticsOf(Operation *op) {
  static const OpSemantics none;
  auto call = dyn_cast<OperatorOp>(op);
  return call ? cleave::semanticsOf(call.getName()) : none;
}

/// Contractions and reductions that give the gradient of a weight, views that only they read, and the views,
/// casts and elementwise operations after them.
llvm::DenseSet<Operation *> TrainingStages::weightGradientOperations() {
  llvm::DenseSet<Operation *> ofWeights;
  Operation *terminator = function.getBody().front().getTerminator();
  // Operations to look at, and whether only a contraction or reduction of these reads them.
  SmallVector<std::pair<Operation *, bool>> pending;
  for (OpOperand &result : terminator->getOpOperands())
    if (Operation *maker = result.get().getDefiningOp();
        maker && function.getResultAttr(result.getOperandNumber(), kGradientAttr))
      pending.push_back({maker, false});
  for (AccumulateOp sum : function.getOps<AccumulateOp>())
    if (isBackward(sum))
      pending.push_back({sum, false});
  while (!pending.empty()) {
    auto [op, feedsContraction] = pending.pop_back_val();
    const OpSemantics &semantics = semanticsOf(op);
    auto isOfWeight = [&](Operation *user) { return user == terminator || ofWeights.contains(user); };
    if (ofWeights.contains(op) || !isBackward(op) || !llvm::all_of(op->getUsers(), isOfWeight) ||
        (feedsContraction && !semantics.isView))
      continue;
    ofWeights.insert(op);
    const bool isContractionOrReduction =
        isa<OperatorOp>(op) && !semantics.isView && !semantics.mayBeView && !semantics.isElementwise;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        pending.push_back({maker, feedsContraction || isContractionOrReduction});
  }
  return ofWeights;
}

/// Operations of the body that use a result of `op`, directly or in a list, tuple or dictionary, which each
/// stage builds for itself.
static SmallVector<Operation *> readersOf(Operation *op) {
  SmallVector<Operation *> readers, pending(op->getUsers());
  while (!pending.empty()) {
    Operation *user = op->getBlock()->findAncestorOpInBlock(*pending.pop_back_val());
    if (isCopiedIntoEachStage(user))
      llvm::append_range(pending, user->getUsers());
    else
      readers.push_back(user);
  }
  return readers;
}

void TrainingStages::assignBackward() {
  Block &body = function.getBody().front();
  llvm::DenseMap<int64_t, int64_t> stageOfNumber;
  for (Operation &op : body.without_terminator())
    if (auto number = forwardNumberOf(&op), stage = stageIndexOf(&op);
        number && stage && forwardPart.contains(&op)) {
      auto [known, isNew] = stageOfNumber.try_emplace(*number, *stage);
      known->second = std::max(known->second, *stage);
    }
  const llvm::DenseSet<Operation *> ofWeights = weightGradientOperations();
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
        stage = std::max(stage, stageIndexOf(user).value_or(0));
    for (Value value : usedValues(&op))
      if (Operation *maker = value.getDefiningOp(); maker && forwardPart.contains(maker))
        stage = std::max(stage, stageIndexOf(maker).value_or(0));
    // What goes to another stage, as a term of the gradient of a tied weight does, is sent as other
    // gradients.
    const bool isOfWeight = ofWeights.contains(&op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
                              return user == body.getTerminator() || isa<AccumulateOp>(user) ||
                                     (stageIndexOf(user) == stage && phaseOf(user) == Phase::BackwardWeight);
                            });
    op.setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage));
    op.setAttr(PhaseAttr::name,
               PhaseAttr::get(b.getContext(), isOfWeight ? Phase::BackwardWeight : Phase::BackwardInput));
  }
  assignSums();
  mergeWeightPhaseIntoInput();
}

/// Puts the addition of each term of a gradient into the stage and phase that compute the term; of terms that
/// no stage computes (constants), into the last stage.
void TrainingStages::assignSums() {
  Builder b(function.getContext());
  int64_t last = 0;
  for (Operation &op : function.getBody().front().without_terminator())
    last = std::max(last, stageIndexOf(&op).value_or(0));
  for (AccumulateOp sum : function.getOps<AccumulateOp>()) {
    if (!isBackward(sum))
      continue;
    Operation *maker = sum.getValue().getDefiningOp();
    auto stage = maker ? stageIndexOf(maker) : std::nullopt;
    sum->setAttr(kStageIndexAttr, b.getI64IntegerAttr(stage.value_or(last)));
    if (stage && isBackward(maker))
      sum->setAttr(PhaseAttr::name, maker->getAttr(PhaseAttr::name));
  }
}

/// In stages that have operations of backward_weight and none of backward_input, makes the former
/// backward_input: a plan has backward_weight only beside backward_input.
void TrainingStages::mergeWeightPhaseIntoInput() {
  std::set<int64_t> withInputs;
  SmallVector<Operation *> ofWeights;
  for (Operation &op : function.getBody().front().without_terminator()) {
    const int64_t stage = stageIndexOf(&op).value_or(-1);
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
    if (!withInputs.count(*stageIndexOf(op)))
      op->setAttr(PhaseAttr::name, PhaseAttr::get(function.getContext(), Phase::BackwardInput));
}

} // namespace cleave
