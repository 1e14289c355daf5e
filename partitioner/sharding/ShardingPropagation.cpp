//===- ShardingPropagation.cpp - Sharding of one dimension, propagated ----===//
#include "partitioner/sharding/ShardingPropagation.h"
#include "ir/autograd/LossAttributes.h"
#include "ir/semantics/Shapes.h"
#include "partitioner/sharding/ProbeShapes.h"
#include "partitioner/sharding/ShardingPropagator.h"

using namespace mlir;

namespace cleave {

//===- Calls --------------------------------------------------------------===//

static Value withoutBoundaries(Value value) {
  while (auto boundary = value.getDefiningOp<BoundaryOp>())
    value = boundary.getValue();
  return value;
}

TensorRef AnalyzedFunction::tensorOf(Value value) {
  value = withoutBoundaries(value);
  Operation *op = value.getDefiningOp();
  std::optional<unsigned> item;
  if (isa_and_nonnull<UnpackOp>(op))
    item = cast<OpResult>(value).getResultNumber();
  else if (isItemAccess(op))
    item = constantItem(OperatorOp(op));
  if (!item)
    return {value};
  Value whole = withoutBoundaries(op->getOperand(0));
  Operation *maker = whole.getDefiningOp();
  if (isa_and_nonnull<ListOp, TupleOp>(maker) && *item < maker->getNumOperands())
    return tensorOf(maker->getOperand(*item));
  return {whole, *item};
}

bool AnalyzedFunction::isTakenByItems(Value list) {
  return llvm::all_of(list.getUsers(), [&](Operation *user) {
    return user->getBlock() == list.getParentBlock() &&
           (isa<UnpackOp>(user) || (isItemAccess(user) && constantItem(OperatorOp(user))));
  });
}

/// True if operators look through the list at its elements.
static bool isListInSight(Value value) {
  auto list = value.getDefiningOp<ListOp>();
  return list && llvm::any_of(list.getElements().getTypes(), isTensorLike);
}

/// The operands in the order of `flatOperands`.
static SmallVector<OpOperand *> flatUses(OperatorOp op) {
  SmallVector<OpOperand *> flat;
  for (OpOperand &operand : op->getOpOperands())
    if (isListInSight(operand.get()))
      for (OpOperand &element : operand.get().getDefiningOp()->getOpOperands())
        flat.push_back(&element);
    else
      flat.push_back(&operand);
  return flat;
}

AnalyzedFunction::AnalyzedFunction(func::FuncOp function)
    : body(&function.getBody().front()), shapes(function) {
  collectItems();
  findMadeOfWeights();
  linkGradients(function);
  // Rules compare sizes; at example sizes, dynamic dimensions could be equal by chance.
  ExampleShapes probes = probeShapes(function);
  for (auto op : body->getOps<OperatorOp>())
    if (!isItemAccess(op))
      addCall(op, probes);
}

void AnalyzedFunction::findMadeOfWeights() {
  for (Operation &op : *body) {
    SmallVector<Value> tensors = llvm::to_vector(llvm::make_filter_range(op.getOperands(), [](Value operand) {
      bool holdsTensors = isTensorLike(operand.getType()) || isa<ListType, TupleType>(operand.getType());
      return holdsTensors && !operand.getDefiningOp<ConstantOp>();
    }));
    bool isMade = isa<OperatorOp, ListOp, UnpackOp, ReshardOp>(op) && !tensors.empty() &&
                  llvm::all_of(tensors, [&](Value tensor) { return isMadeOfWeights(tensor); });
    if (isMade || isa<ParamOp>(op))
      madeOfWeights.insert(op.result_begin(), op.result_end());
  }
}

void AnalyzedFunction::linkGradients(func::FuncOp function) {
  llvm::StringMap<Value> weights;
  for (auto param : body->getOps<ParamOp>())
    weights.try_emplace(param.getName(), param);
  for (OpOperand &result : body->getTerminator()->getOpOperands())
    if (auto as = function.getResultAttrOfType<StringAttr>(result.getOperandNumber(), kShardedAsAttr))
      if (Value weight = weights.lookup(as.getValue())) {
        const TensorRef gradient = tensorOf(result.get());
        links.try_emplace(gradient, TensorRef{weight});
        links.try_emplace(TensorRef{weight}, gradient);
      }
}

void AnalyzedFunction::collectItems() {
  for (Operation &op : *body)
    for (Value result : op.getResults())
      if (TensorRef tensor = tensorOf(result);
          tensor.value != result && !isTensorLike(tensor.value.getType())) {
        items.try_emplace(tensor, result);
        unsigned &count = itemCounts[tensor.value];
        count = std::max(count, tensor.item + 1);
      }
}

void AnalyzedFunction::addCall(OperatorOp op, const ExampleShapes &probes) {
  Call call{op, opShardingRuleOf(op, probes), std::nullopt, flatUses(op), {}, {}};
  for (OpOperand *use : call.uses)
    call.operands.push_back(isTensorLike(use->get().getType()) ? tensorOf(use->get()) : TensorRef());
  for (Value result : op->getResults())
    if (isTensorLike(result.getType()))
      call.results.push_back({result});
    else
      for (unsigned item = 0; item < itemCounts.lookup(result); ++item)
        call.results.push_back({result, item});
  // The index map of a static dimension does not depend on other sizes.
  call.indexMap = indexMapOf(op, shapes);
  // Items of a list that is used or given as a whole are not visible.
  auto isTakenWhole = [](Value result) { return isa<ListType>(result.getType()) && !isTakenByItems(result); };
  auto isGivenWhole = [](Value operand) {
    auto list = dyn_cast<ListType>(operand.getType());
    return list && isTensorLike(list.getElement()) && !isListInSight(operand);
  };
  if (llvm::any_of(op->getResults(), isTakenWhole) || llvm::any_of(op->getOperands(), isGivenWhole)) {
    call.rule.reset();
    call.indexMap.reset();
  }
  if (call.indexMap &&
      (hasDynamic(call, call.indexMap->dim) || call.indexMap->results.size() < call.results.size()))
    call.indexMap.reset();
  if (call.rule)
    replicateDynamic(call);
  for (ArrayRef<TensorRef> side : {ArrayRef(call.operands), ArrayRef(call.results)})
    for (TensorRef tensor : side)
      if (tensor.value)
        if (auto &users = callsOf[tensor]; users.empty() || users.back() != calls.size())
          users.push_back(calls.size());
  calls.push_back(std::move(call));
}

SmallVector<const AnalyzedCall *> AnalyzedFunction::callsTaking(TensorRef tensor) const {
  SmallVector<const AnalyzedCall *> found;
  if (auto users = callsOf.find(tensor); users != callsOf.end())
    for (unsigned index : users->second)
      if (llvm::is_contained(calls[index].operands, tensor))
        found.push_back(&calls[index]);
  return found;
}

RankedTensorType AnalyzedFunction::typeOf(TensorRef tensor) const {
  Value value = tensor.value;
  if (value && !isTensorLike(value.getType()))
    value = items.lookup(tensor);
  return value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

int64_t AnalyzedFunction::sizeOf(TensorRef tensor, unsigned dim) const {
  RankedTensorType type = typeOf(tensor);
  return type && dim < type.getRank() && !type.isDynamicDim(dim) ? type.getDimSize(dim) : 0;
}

int64_t AnalyzedFunction::bytesOf(TensorRef tensor) const {
  bool isItem = !isTensorLike(tensor.value.getType());
  Value value = isItem ? items.lookup(tensor) : tensor.value;
  return value ? shapes.bytesOf(value) : 0;
}

/// True if a tensor of the call has a dimension `dim` that is not static.
bool AnalyzedFunction::hasDynamic(const Call &call, unsigned dim) const {
  auto isDynamic = [&](TensorRef tensor) {
    RankedTensorType type = typeOf(tensor);
    return type && dim < type.getRank() && type.isDynamicDim(dim);
  };
  return llvm::any_of(call.operands, isDynamic) || llvm::any_of(call.results, isDynamic);
}

/// Makes factors of dimensions that are not static NeedsReplication.
void AnalyzedFunction::replicateDynamic(Call &call) const {
  auto block = [&](ArrayRef<TensorRef> side, ArrayRef<OpShardingRule::Dims> dims) {
    for (auto [index, tensor] : llvm::enumerate(side)) {
      RankedTensorType type = typeOf(tensor);
      if (!type || dims.empty())
        continue;
      for (auto [d, dim] : llvm::enumerate(dims[std::min<size_t>(index, dims.size() - 1)]))
        if (int64_t(d) < type.getRank() && type.isDynamicDim(d))
          for (unsigned factor : dim)
            call.rule->factors[factor].kind = FactorKind::NeedsReplication;
    }
  };
  block(call.operands, call.rule->operands);
  block(call.results, call.rule->results);
}

/// Adds the uses of a sharded tensor by operations that are no calls: the function's return, and operations
/// that need it whole.
/// \param item  the item of `value` that is meant, if that is a list or tuple.
void AnalyzedFunction::findOtherUses(Value value, std::optional<unsigned> item, ShardingGroup &found) const {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    bool isHere = user->getBlock() == body;
    if (isa<ObserveOp>(user))
      continue;
    if (isHere && isa<BoundaryOp>(user))
      findOtherUses(user->getResult(0), item, found);
    else if (isHere && !item && isa<ListOp, TupleOp>(user))
      findOtherUses(user->getResult(0), use.getOperandNumber(), found);
    else if (isHere && item && isa<UnpackOp>(user) && *item < user->getNumResults())
      findOtherUses(user->getResult(*item), std::nullopt, found);
    else if (isHere && item && isItemAccess(user) && constantItem(OperatorOp(user))) {
      if (constantItem(OperatorOp(user)) == item)
        findOtherUses(user->getResult(0), std::nullopt, found);
    } else if (isa<func::ReturnOp>(user)) {
      auto function = cast<func::FuncOp>(user->getParentOp());
      if (!function.getResultAttr(use.getOperandNumber(), kShardedAsAttr) &&
          !llvm::is_contained(found.outputs, &use))
        found.outputs.push_back(&use);
    } else {
      bool isOfCall =
          isHere && isa<OperatorOp>(user) && !isItemAccess(user) && (!item || isListInSight(value));
      if (!isOfCall && !llvm::is_contained(found.gathers, &use))
        found.gathers.push_back(&use);
    }
  }
}

//===- Sharding groups ----------------------------------------------------===//

ShardingGroup AnalyzedFunction::propagate(TensorRef tensor, unsigned dim, int32_t ranks,
                                          llvm::function_ref<bool(TensorRef)> isWhole) const {
  std::optional<ShardingGroup> best;
  auto costOf = [&](const ShardingGroup &found) {
    return std::pair(found.count < ranks, found.gathers.size() + found.reshards.size());
  };
  int64_t size = sizeOf(tensor, dim);
  if (size == 0)
    return {};
  auto consider = [&](ShardingGroup found) {
    for (auto &[split, labelled] : found.tensors) {
      bool isItem = !isTensorLike(split.value.getType());
      findOtherUses(split.value, isItem ? std::optional(split.item) : std::nullopt, found);
    }
    if (!best || costOf(found) < costOf(*best))
      best = std::move(found);
  };
  auto staysSplit = [&](const ShardingGroup &found) {
    auto own = found.tensors.find(tensor);
    return own != found.tensors.end() &&
           llvm::count(own->second.labels, LabelledDim::kReplicated) * 2 <= size;
  };
  // Heads are usually outside of head widths, but parts of a fused weight may be outside of heads.
  ShardingPropagator::Preference alternatives{1, 1};
  for (unsigned ofOthers = 0; ofOthers < alternatives.ofOthers; ++ofOthers)
    for (unsigned ofViews = 0; ofViews < alternatives.ofViews; ++ofViews) {
      ShardingPropagator flow(*this, {ofViews, ofOthers}, isWhole);
      ShardingGroup found = flow.run(tensor, dim, size);
      alternatives.ofViews = std::max(alternatives.ofViews, flow.countAlternatives().ofViews);
      alternatives.ofOthers = std::max(alternatives.ofOthers, flow.countAlternatives().ofOthers);
      if (!found.gathers.empty())
        if (ShardingGroup kept = flow.keepReplicated(found); staysSplit(kept))
          consider(std::move(kept));
      consider(std::move(found));
      // Nothing is cheaper; trying other factors might propagate through the whole model.
      if (costOf(*best) == std::pair(false, size_t(0)))
        return std::move(*best);
    }
  return std::move(*best);
}

} // namespace cleave
