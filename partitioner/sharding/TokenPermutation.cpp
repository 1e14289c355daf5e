//===- TokenPermutation.cpp - Rows of the batch in sorted order -----------===//
#include "partitioner/sharding/TokenPermutation.h"
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Matchers.h"
#include "partitioner/sharding/BatchAnalysis.h"

using namespace mlir;

namespace cleave {

StringRef TokenPermutation::length(Value value) const {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  auto layout = tensor ? dyn_cast_or_null<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
  auto dim = dimensionHolding(value.getType(), batch);
  return layout && dim ? StringRef(layout.getDims()[*dim]) : StringRef();
}

/// `times` the size with this text.
static std::optional<SymbolicDim> multiple(StringRef text, int64_t times) {
  auto size = SymbolicDim::parse(text);
  if (!size || size->isUnknown())
    return std::nullopt;
  auto terms = size->getTerms();
  for (auto &[names, coefficient] : terms)
    coefficient *= times;
  return SymbolicDim::make(std::move(terms), size->getDivisor());
}

/// A constant number of the program, also one in a tensor.
static std::optional<int64_t> constantOf(Value value) {
  if (auto held = value.getDefiningOp<ParamOp>())
    return held.getIntegers() && held.getIntegers()->size() == 1 ? std::optional((*held.getIntegers())[0])
                                                                 : std::nullopt;
  auto made = value.getDefiningOp<OperatorOp>();
  if (made && semanticsOf(made.getName()).isScalar && made->getNumOperands() == 1 &&
      isTensorLike(value.getType()))
    value = made->getOperand(0);
  IntegerAttr number;
  return matchPattern(value, m_Constant(&number)) ? std::optional(number.getInt()) : std::nullopt;
}

static Type elementOf(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  return type ? type.getElementType() : Type();
}

/// True if the dtype holds any index or number of rows exactly.
static bool holdsPositions(Value value) {
  Type element = elementOf(value);
  return element && (element.isSignlessInteger(32) || element.isSignlessInteger(64));
}

/// True if the dtype holds integers below 2^24 exactly.
static bool holdsWholeNumbers(Value value) {
  Type element = elementOf(value);
  return holdsPositions(value) || (element && (element.isF32() || element.isF64()));
}

/// The tensor with the same elements before reshapes.
static OpResult sourceOf(Value value) {
  while (auto op = value.getDefiningOp<OperatorOp>()) {
    const OpSemantics &semantics = semanticsOf(op.getName());
    Value before = op->getOperand(0);
    bool isSame = (semantics.isView || semantics.mayBeView) && elementOf(before) == elementOf(value);
    if (!isSame && !(semantics.isCast && holdsWholeNumbers(value)))
      break;
    value = before;
  }
  return dyn_cast<OpResult>(value);
}

/// An exclusive upper bound, if the values are known to be integers from 0 on; nothing otherwise.
static std::optional<int64_t> boundOf(Value value, const ExampleShapes &shapes) {
  OpResult source = sourceOf(value);
  if (!source || !isa<OperatorOp>(source.getOwner()))
    return std::nullopt;
  auto op = cast<OperatorOp>(source.getOwner());
  if (!semanticsOf(op.getName()).lastResultIsIndices || source.getResultNumber() + 1 != op->getNumResults())
    return std::nullopt;
  auto shape = shapes.shapeOf(op->getOperand(0));
  auto named = constantInt(op, "dim");
  auto dim = shape && named ? dimensionAt(*named, shape->size()) : std::nullopt;
  return dim ? std::optional((*shape)[*dim]) : std::nullopt;
}

void TokenPermutation::visitAggregate(Operation *op) {
  if (Operation *sort = sortBefore(op))
    known[op->getResult(0)] = {sort, ValueRole::Items};
}

Operation *TokenPermutation::sortBefore(Operation *op) const {
  auto call = dyn_cast<OperatorOp>(op);
  for (Value operand : call ? flatOperands(call) : SmallVector<Value>(op->getOperands()))
    if (Operation *sort = sortOf(operand))
      return sort;
  return nullptr;
}

/// Starts tracking at a sort of one row after another.
bool TokenPermutation::beginOrder(OperatorOp op) {
  Value sorted = op->getOperand(0);
  auto type = dyn_cast<RankedTensorType>(sorted.getType());
  if (semanticsOf(op.getName()).permutationRole != PermutationRole::Sort || !type || type.getRank() != 1 ||
      length(sorted).empty() || sortOf(sorted))
    return false;
  for (OpResult result : op->getResults())
    known[result] = {op, result.getResultNumber() + 1 == op->getNumResults() ? ValueRole::Permutation
                                                                             : ValueRole::Keys};
  return true;
}

bool TokenPermutation::isRange(Value value, StringRef end) const {
  auto maker = value.getDefiningOp<OperatorOp>();
  auto arangeEnd = maker ? semanticsOf(maker.getName()).arangeEnd : nullptr;
  Value last = arangeEnd ? arangeEnd(maker) : Value();
  auto size = last ? last.getDefiningOp<SizeOp>() : SizeOp();
  return size && size.getExpression() == end;
}

/// True if each integer that a key can be has its own bin, so that bins are in the order of groups.
bool TokenPermutation::countsKeys(OperatorOp op, Operation *sort) const {
  auto counted = semanticsOf(op.getName()).integerBins;
  const std::optional<int64_t> numbers = counted ? counted(op) : std::nullopt;
  auto bound = boundOf(sort->getOperand(0), shapes);
  auto descending = constantInt(OperatorOp(sort), "descending");
  return is(op->getOperand(0), ValueRole::Keys) && numbers && bound && *bound <= *numbers && descending == 0;
}

std::optional<TokenPermutation::Known> TokenPermutation::followLookup(OperatorOp op, Operation *sort,
                                                                      bool &isBack) const {
  auto rule = opShardingRuleOf(op, shapes);
  if (!rule || rule->indexedDims.size() != 1)
    return std::nullopt;
  const OpShardingRule::IndexedDim &indexed = rule->indexedDims[0];
  SmallVector<Value> operands = flatOperands(op);
  Value table = operands[indexed.tableOperand], index = operands[indexed.indicesOperand];
  if (dimensionHolding(table.getType(), batch) != indexed.tableDim)
    return std::nullopt;
  StringRef rows = length(sort->getOperand(0));
  if (is(index, ValueRole::Permutation) && !sortOf(table) &&
      multiple(length(table), known.lookup(index).topK) == SymbolicDim::parse(rows))
    return Known{sort, ValueRole::Rows};
  isBack = is(index, ValueRole::InversePermutation) && isInOrder(table) &&
           !is(table, ValueRole::Permutation) && length(table) == rows;
  return isBack ? std::optional(Known{}) : std::nullopt;
}

/// Writes along one dimension at all indices, so that nothing of the old values remains.
std::optional<TokenPermutation::Known> TokenPermutation::followScatter(OperatorOp op, Operation *sort,
                                                                       bool &isBack) const {
  auto indices = op->getOperand(1).getDefiningOp<ListOp>();
  if (!indices || indices.getElements().size() != 1 || constantInt(op, "accumulate") != 0)
    return std::nullopt;
  Value into = op->getOperand(0), index = indices.getElements()[0], values = op->getOperand(2);
  StringRef rows = length(sort->getOperand(0));
  if (!is(index, ValueRole::Permutation) || known.lookup(index).topK != 1 ||
      dimensionHolding(into.getType(), batch) != 0u || length(into) != rows)
    return std::nullopt;
  if (isRange(values, rows))
    return Known{sort, ValueRole::InversePermutation};
  isBack = isInOrder(values) && !is(values, ValueRole::Permutation) && length(values) == rows &&
           dimensionHolding(values.getType(), batch) == 0u;
  return isBack ? std::optional(Known{}) : std::nullopt;
}

/// True if the result's dtype can hold this content.
static bool canHold(Value result, TokenPermutation::ValueRole content) {
  switch (content) {
  case TokenPermutation::ValueRole::Permutation:
  case TokenPermutation::ValueRole::InversePermutation:
    return holdsPositions(result);
  case TokenPermutation::ValueRole::Keys:
  case TokenPermutation::ValueRole::Counts:
  case TokenPermutation::ValueRole::Offsets:
    return holdsWholeNumbers(result);
  default:
    return true;
  }
}

std::optional<TokenPermutation::Known> TokenPermutation::follow(OperatorOp op, Operation *sort,
                                                                bool &isBack) const {
  const OpSemantics &semantics = semanticsOf(op.getName());
  Value first = op->getOperand(0);
  const Known own = known.lookup(first);
  if (semantics.isLookup)
    return followLookup(op, sort, isBack);
  // The same numbers in another dtype.
  if (semantics.isCast && own.sort && length(first) == length(op->getResult(0)))
    return own;
  switch (semantics.permutationRole) {
  case PermutationRole::Scatter:
    return followScatter(op, sort, isBack);
  case PermutationRole::Histogram:
    return countsKeys(op, sort) ? std::optional(Known{sort, ValueRole::Counts}) : std::nullopt;
  case PermutationRole::CumulativeSum:
    return is(first, ValueRole::Counts) ? std::optional(Known{sort, ValueRole::Offsets}) : std::nullopt;
  case PermutationRole::Group: {
    // Further operands, such as a bias.
    auto more = op->getOperands().drop_front(3);
    bool isOne = llvm::none_of(more, [&](Value value) { return sortOf(value) || !length(value).empty(); }) &&
                 is(first, ValueRole::Rows) && is(op->getOperand(2), ValueRole::Offsets) &&
                 !sortOf(op->getOperand(1)) && length(op->getOperand(1)).empty() &&
                 dimensionHolding(first.getType(), batch) == 0u &&
                 length(first) == length(sort->getOperand(0));
    return isOne ? std::optional(Known{sort, ValueRole::Rows}) : std::nullopt;
  }
  case PermutationRole::FloorDivide: {
    auto topK = constantOf(op->getOperand(1));
    bool isOne = is(first, ValueRole::Permutation) && own.topK == 1 && topK && *topK > 0;
    return isOne ? std::optional(Known{sort, ValueRole::Permutation, *topK}) : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

/// True if all operands that hold the batch are in the order of one sort, and no other part of it is read.
bool TokenPermutation::isAligned(OperatorOp op) const {
  return llvm::all_of(flatOperands(op), [&](Value operand) {
    // Items of a list that an operator returns are not known here.
    bool isMadeList = isa<ListType>(operand.getType()) && operand.getDefiningOp<OperatorOp>();
    if (!sortOf(operand))
      return !isMadeList && !dimensionHolding(operand.getType(), batch);
    return isInOrder(operand) && !is(operand, ValueRole::Permutation);
  });
}

TokenPermutation::Verdict TokenPermutation::visit(OperatorOp op) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  if (beginOrder(op))
    return Verdict::Followed;
  Operation *sort = sortBefore(op);
  // Elements of operands that only give sizes do not matter.
  if (!sort || semantics.readsNoElements || semantics.isUninitialized)
    return Verdict::Unconcerned;
  auto isOther = [&](Value operand) { return sortOf(operand) && sortOf(operand) != sort; };
  if (llvm::any_of(flatOperands(op), isOther))
    return Verdict::Refused;
  bool isBack = false;
  if (auto found = follow(op, sort, isBack); found && canHold(op->getResult(0), found->content)) {
    if (!isBack)
      known[op->getResult(0)] = *found;
    return Verdict::Followed;
  }
  return isAligned(op) ? Verdict::Aligned : Verdict::Refused;
}

bool TokenPermutation::keepOrder(Operation *op) {
  Operation *sort = sortBefore(op);
  for (Value result : op->getResults()) {
    // Splitting the batch's dimension would separate rows from their samples.
    if (isTensorLike(result.getType()) && length(result) != length(sort->getOperand(0)))
      return false;
    known[result] = {sort, ValueRole::Rows};
  }
  return true;
}

} // namespace cleave
