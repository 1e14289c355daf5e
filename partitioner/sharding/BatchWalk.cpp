//===- BatchWalk.cpp - What operations do with the batch ------------------===//
#include "partitioner/sharding/BatchWalk.h"
#include "ir/Schemas.h"
#include "ir/UsedValues.h"
#include "ir/semantics/Shapes.h"
#include "partitioner/sharding/ProbeShapes.h"

using namespace mlir;

namespace cleave {

/// A size of the batch that no other dimension has, so that rules, which compare sizes, distinguish it. It is
/// a prime, so that no view takes it apart, and larger than those of probeShapes, but small enough for counts
/// of elements.
static constexpr int64_t kProbeSize = 1'000'003;

Dependence dependenceOf(StringRef text, StringRef name) {
  auto size = SymbolicDim::parse(text);
  if (!size || size->isUnknown())
    return Dependence::Other;
  bool isIn = false, isInAll = true;
  for (auto &[names, coefficient] : size->getTerms()) {
    auto times = llvm::count(names, name);
    isIn |= times > 0;
    isInAll &= times == 1;
  }
  if (!isIn)
    return Dependence::None;
  return isInAll && size->getDivisor() == 1 ? Dependence::Proportional : Dependence::Other;
}

ArrayRef<std::string> dimsOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto layout = tensor ? dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
  return layout ? ArrayRef<std::string>(layout.getDims()) : ArrayRef<std::string>();
}

static constexpr llvm::StringLiteral kUnknownSizes =
    "has sizes for which no formula of the named ones was found, beside";

/// True if an operand or result has a dimension without an expression.
static bool hasUnknownSizes(Operation *op) {
  auto isUnknown = [](Type type) { return llvm::is_contained(dimsOf(type), "?"); };
  return llvm::any_of(op->getOperandTypes(), isUnknown) || llvm::any_of(op->getResultTypes(), isUnknown);
}

/// True if the type depends on the batch at all.
static bool mentions(Type type, StringRef name) {
  return llvm::any_of(dimsOf(type),
                      [&](const std::string &dim) { return dependenceOf(dim, name) != Dependence::None; });
}

static StringRef describe(FactorKind kind) {
  switch (kind) {
  case FactorKind::Reduce:
    return "reduces over";
  case FactorKind::Lookup:
    return "looks up in";
  case FactorKind::Scan:
    return "goes in order along";
  case FactorKind::Halo:
    return "needs neighbours in";
  default:
    return "needs the whole of";
  }
}

BatchWalk::BatchWalk(func::FuncOp function, StringRef name, bool allowsRandom)
    : function(function), name(name), shapes(probeShapes(function).resized(name, kProbeSize)),
      allowsRandom(allowsRandom), permutation(name, shapes) {}

/// The outermost factor of a dimension, in which the batch is; one of size 1 orders nothing.
static unsigned outermostFactor(const OpShardingRule &rule, const OpShardingRule::Dim &dim) {
  auto found = llvm::find_if(dim, [&](unsigned factor) { return rule.factors[factor].size != 1; });
  return found == dim.end() ? dim.front() : *found;
}

bool BatchWalk::holds(Value value) const { return mentions(value.getType(), name) || lists.count(value); }

/// True if dimension `dim` of the tensor is exactly the batch, so that index n is sample n.
bool BatchWalk::isOneRowPerSample(Value tensor, unsigned dim) const {
  auto dims = dimsOf(tensor.getType());
  return dim < dims.size() && dims[dim] == name;
}

/// Lists, tuples and dictionaries: operators and item accesses look through them at the items.
void BatchWalk::visitAggregate(Operation *op) {
  for (Value item : op->getOperands())
    if (numbers.contains(item))
      numbers.insert(op->getResult(0));
  permutation.visitAggregate(op);
}

/// Items taken from a list or tuple.
BatchWalk::Found BatchWalk::visitItems(Operation *op) {
  Value whole = op->getOperand(0);
  for (Value position : op->getOperands().drop_front())
    if (numbers.contains(position))
      return obstacle(op, "computes with the size of");
  Operation *maker = whole.getDefiningOp();
  bool isMadeInSight = maker && isa<ListOp, TupleOp, DictOp>(maker);
  bool holdsPositions = isMadeInSight && llvm::any_of(maker->getOperands(),
                                                      [&](Value item) { return positions.contains(item); });
  for (Value result : op->getResults()) {
    if (numbers.contains(whole))
      numbers.insert(result);
    if (holdsPositions || positions.contains(whole))
      positions.insert(result);
    if (!isMadeInSight && holds(result) && (!lists.count(whole) || dimensionIn(result) != lists[whole]))
      return obstacle(op, "has items of unknown");
  }
  if (permutation.isAggregate(whole) || (permutation.sortOf(whole) && !permutation.keepOrder(op)))
    return sortObstacle(op);
  return std::nullopt;
}

/// True if the operator counts 0, 1, … up to the batch's size, or to its number of rows.
bool BatchWalk::isWholeRange(OperatorOp op) const {
  auto arangeEnd = semanticsOf(op.getName()).arangeEnd;
  Value end = arangeEnd ? arangeEnd(op) : Value();
  auto size = end ? end.getDefiningOp<SizeOp>() : SizeOp();
  return size && dependenceOf(size.getExpression(), name) == Dependence::Proportional;
}

/// Numbers that depend on the batch's size may only be sizes of results.
BatchWalk::Found BatchWalk::checkSizes(OperatorOp op) {
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!numbers.contains(operand))
      continue;
    const OpSemantics &semantics = semanticsOf(op.getName());
    bool isSize = operand == op.getArgument(semantics.sizes);
    bool takesAll = i > 0 && semantics.isView && op->getResult(0).getType() == op->getOperand(0).getType();
    if (isWholeRange(op))
      positions.insert(op->getResult(0));
    else if (!isSize && !takesAll)
      return obstacle(op, "computes with the size of");
  }
  return std::nullopt;
}

BatchWalk::Found BatchWalk::checkOperand(OperatorOp op, const OpShardingRule &rule, ArrayRef<Value> operands,
                                         unsigned i, std::optional<unsigned> &factor) const {
  auto dim = dimensionIn(operands[i]);
  if (!dim || i >= rule.operands.size() || *dim >= rule.operands[i].size() || rule.operands[i][*dim].empty())
    return obstacle(op, hasUnknownSizes(op) ? kUnknownSizes : "has no rule for");
  // True if sample n of the batch is looked up at index n.
  auto isOwnSample = [&](const OpShardingRule::IndexedDim &indexed) {
    return indexed.tableOperand == i && indexed.tableDim == *dim &&
           positions.contains(operands[indexed.indicesOperand]) &&
           isOneRowPerSample(operands[i], indexed.tableDim);
  };
  if (llvm::any_of(rule.indexedDims, isOwnSample))
    return std::nullopt;
  unsigned found = outermostFactor(rule, rule.operands[i][*dim]);
  if (rule.factors[found].kind != FactorKind::PassThrough)
    return obstacle(op, describe(rule.factors[found].kind));
  if (factor && *factor != found)
    return obstacle(op, "takes every pair of positions in");
  factor = found;
  return std::nullopt;
}

/// Indices of samples differ between parts of the batch, so they may only be reshaped, or index their own
/// sample.
BatchWalk::Found BatchWalk::checkPositions(OperatorOp op, const OpShardingRule &rule,
                                           ArrayRef<Value> operands) {
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (!positions.contains(operand))
      continue;
    const OpSemantics &semantics = semanticsOf(op.getName());
    if (semantics.isView || semantics.mayBeView) {
      positions.insert(op->getResult(0));
      continue;
    }
    auto namesSample = [&, i = i](const OpShardingRule::IndexedDim &indexed) {
      Value table = operands[indexed.tableOperand];
      return indexed.indicesOperand == i && isOneRowPerSample(table, indexed.tableDim);
    };
    if (llvm::none_of(rule.indexedDims, namesSample))
      return obstacle(op, "computes with positions in");
  }
  return std::nullopt;
}

BatchWalk::Found BatchWalk::checkResults(OperatorOp op, const OpShardingRule &rule,
                                         std::optional<unsigned> factor) {
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    // The operator does not read the batch.
    if (!factor && !holds(result))
      continue;
    if (!isTensorLike(result.getType()) && !isa<ListType>(result.getType()))
      return obstacle(op, "makes numbers of");
    // Operators with several results, such as sort, give all of them the same dimensions.
    const OpShardingRule::Dims &dims = rule.results[std::min<size_t>(i, rule.results.size() - 1)];
    auto isHere = [&](const OpShardingRule::Dim &dim) {
      if (dim.empty())
        return false;
      const unsigned own = outermostFactor(rule, dim);
      return factor ? own == *factor
                    : rule.factors[own].size % kProbeSize == 0 &&
                          rule.factors[own].kind == FactorKind::Broadcast;
    };
    auto found = llvm::find_if(dims, isHere);
    if (found == dims.end())
      return obstacle(op, factor ? "loses" : "numbers the positions of");
    if (isa<ListType>(result.getType()))
      lists[result] = found - dims.begin();
    else if (dimensionIn(result) != unsigned(found - dims.begin()))
      return obstacle(op, "moves");
  }
  return std::nullopt;
}

BatchWalk::Found BatchWalk::visitOperator(OperatorOp op) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  if (isItemAccess(op))
    return visitItems(op);
  SmallVector<Value> operands = flatOperands(op);
  bool readsIt = llvm::any_of(operands, [&](Value value) { return holds(value); });
  bool makesIt = llvm::any_of(op->getResults(), [&](Value value) { return holds(value); });
  bool usesSize = llvm::any_of(op->getOperands(), [&](Value value) { return numbers.contains(value); });
  if (isRandom(op) && !allowsRandom)
    return obstacle(op, "draws random numbers, others for each part of");
  if (semantics.isScalar && permutation.sortBefore(op))
    return sortObstacle(op);
  if (semantics.isScalar && !readsIt) {
    if (usesSize)
      numbers.insert(op->result_begin(), op->result_end());
    return std::nullopt;
  }
  if (Found found = checkSizes(op))
    return found;
  const TokenPermutation::Verdict verdict = permutation.visit(op);
  if (verdict == TokenPermutation::Verdict::Refused)
    return sortObstacle(op);
  // The values that a followed Scatter writes are all indices of the batch, or no indices.
  if (verdict == TokenPermutation::Verdict::Followed)
    return semantics.permutationRole == PermutationRole::Scatter
               ? std::nullopt
               : checkPositions(op, OpShardingRule(), operands);
  if (readsIt || makesIt)
    if (Found found = applyRule(op, operands))
      return found;
  return verdict == TokenPermutation::Verdict::Aligned && !permutation.keepOrder(op) ? sortObstacle(op)
                                                                                     : std::nullopt;
}

/// Applies the operator's sharding rule to the batch.
BatchWalk::Found BatchWalk::applyRule(OperatorOp op, ArrayRef<Value> operands) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  bool isUnknown = llvm::any_of(operands, [](Value value) {
    return isTensorLike(value.getType()) && !isa<RankedTensorType>(value.getType());
  });
  auto rule = isUnknown ? std::nullopt : opShardingRuleOf(op, shapes);
  if (!rule || rule->results.empty())
    return obstacle(op, hasUnknownSizes(op) ? kUnknownSizes : "has no rule for");
  std::optional<unsigned> factor;
  for (unsigned i = 0; i < operands.size(); ++i)
    if (holds(operands[i]) && !semantics.readsNoElements)
      if (Found found = checkOperand(op, *rule, operands, i, factor))
        return found;
  if (Found found = checkPositions(op, *rule, operands))
    return found;
  return checkResults(op, *rule, factor);
}

bool BatchWalk::isProportionalToBatchSize(Value value) const {
  if (auto size = value.getDefiningOp<SizeOp>())
    return dependenceOf(size.getExpression(), name) == Dependence::Proportional;
  // As a tensor, or a float.
  auto call = dyn_cast_or_null<OperatorOp>(value.getDefiningOp());
  if (!call || call->getNumOperands() != 1)
    return false;
  const OpSemantics &semantics = semanticsOf(call.getName());
  return semantics.isScalar && semantics.linearity == Linearity::All &&
         isProportionalToBatchSize(call->getOperand(0));
}

std::optional<Reduction> BatchWalk::reductionOf(OperatorOp op) const {
  SmallVector<Value> operands = flatOperands(op);
  auto hasBatch = [&](Value value) { return holds(value); };
  if (llvm::none_of(operands, hasBatch) || llvm::any_of(op->getResults(), hasBatch))
    return std::nullopt;
  auto rule = opShardingRuleOf(op, shapes);
  if (!rule)
    return std::nullopt;
  std::optional<unsigned> factor;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (numbers.contains(operand) || positions.contains(operand) || permutation.sortOf(operand))
      return std::nullopt;
    if (!holds(operand))
      continue;
    auto dim = dimensionIn(operand);
    if (!dim || i >= rule->operands.size() || *dim >= rule->operands[i].size() ||
        rule->operands[i][*dim].empty())
      return std::nullopt;
    const unsigned own = outermostFactor(*rule, rule->operands[i][*dim]);
    if (rule->factors[own].kind != FactorKind::Reduce || factor.value_or(own) != own)
      return std::nullopt;
    factor = own;
  }
  return cleave::reductionOf(op);
}

/// Parts of the batch have parts of a state with rows.
BatchWalk::Found BatchWalk::visitState(ReadStateOp state) const {
  if (state.getBatchDim() && isOneRowPerSample(state, *state.getBatchDim()))
    return std::nullopt;
  return obstacle(state, "\"" + state.getName() + "\" would pass from part to part of");
}

BatchWalk::Found BatchWalk::visitUpdate(WriteStateOp update) const {
  Value value = update.getValue();
  if (Operation *sort = permutation.sortOf(value))
    return obstacle(sort, "needs the whole of");
  if (positions.contains(value) || numbers.contains(value))
    return obstacle(update, "keeps positions in");
  if (dimensionIn(value) != update.getState().getBatchDim())
    return obstacle(update, "moves");
  return std::nullopt;
}

BatchWalk::Found BatchWalk::visit(Operation *op) {
  if (auto state = dyn_cast<ReadStateOp>(op))
    return visitState(state);
  if (auto update = dyn_cast<WriteStateOp>(op))
    return visitUpdate(update);
  if (auto size = dyn_cast<SizeOp>(op)) {
    if (dependenceOf(size.getExpression(), name) != Dependence::None)
      numbers.insert(size);
    return std::nullopt;
  }
  if (auto boundary = dyn_cast<BoundaryOp>(op)) {
    for (llvm::DenseSet<Value> *known : {&numbers, &positions})
      if (known->contains(boundary.getValue()))
        known->insert(boundary.getResult());
    permutation.share(boundary.getValue(), boundary.getResult());
    if (auto list = lists.find(boundary.getValue()); list != lists.end())
      lists[boundary.getResult()] = unsigned(list->second);
    return std::nullopt;
  }
  if (isa<ListOp, TupleOp, DictOp>(op)) {
    visitAggregate(op);
    return std::nullopt;
  }
  if (isa<UnpackOp>(op))
    return visitItems(op);
  if (auto call = dyn_cast<OperatorOp>(op))
    return visitOperator(call);
  return op->getNumRegions() > 0 ? visitRegions(op) : std::nullopt;
}

/// Control flow must not touch the batch, neither its operands nor its regions.
BatchWalk::Found BatchWalk::visitRegions(Operation *op) {
  bool touches = llvm::any_of(usedValues(op), [&](Value value) {
    return holds(value) || numbers.contains(value) || permutation.sortOf(value);
  });
  Found found;
  op->walk([&](Operation *inner) {
    auto size = dyn_cast<SizeOp>(inner);
    touches |= size && dependenceOf(size.getExpression(), name) != Dependence::None;
    touches |= llvm::any_of(inner->getResults(), [&](Value value) { return holds(value); });
    if (auto call = dyn_cast<OperatorOp>(inner); call && isRandom(call) && !allowsRandom && !found)
      found = obstacle(inner, "draws random numbers, others for each part of");
    if (auto state = dyn_cast<ReadStateOp>(inner); state && !found)
      found = visitState(state);
  });
  return touches ? obstacle(op, "is control flow on") : found;
}

BatchWalk::Found BatchWalk::checkInputs() {
  SizeLimits limits = limitsOf(function).lookup(name);
  if (limits.divisibleBy > 1)
    return obstacle(function, "runs at multiples only of");
  if (limits.min > 1)
    return obstacle(function, "runs at no size below " + Twine(limits.min) + " of");
  auto holdsIt = [&](Value value) { return dimensionIn(value).has_value(); };
  if (llvm::none_of(function.getArguments(), holdsIt))
    return obstacle(function, "has no input with");
  for (Value argument : function.getArguments())
    if (holds(argument) && !holdsIt(argument))
      return obstacle(function, "has an input that is not proportional to");
  return std::nullopt;
}

BatchWalk::Found BatchWalk::run() {
  if (Found found = checkInputs())
    return found;
  for (Operation &op : function.getBody().front().without_terminator())
    if (Found found = visit(&op))
      return found;
  Operation *end = function.getBody().front().getTerminator();
  for (Value output : end->getOperands())
    if (Operation *sort = permutation.sortOf(output))
      return obstacle(sort, "needs the whole of");
    else if (positions.contains(output) || numbers.contains(output))
      return obstacle(function, "gives numbers that count");
    else if (!isa<RankedTensorType>(output.getType()) || (holds(output) && !dimensionIn(output).has_value()))
      return obstacle(function, "has an output that is not known to be proportional to");
  return std::nullopt;
}

} // namespace cleave
