//===- LossSplit.cpp - The loss of a batch, from those of its parts -------===//
#include "partitioner/sharding/LossSplit.h"
#include "ir/Cleave.h"
#include "ir/UsedValues.h"
#include "ir/semantics/Shapes.h"
#include "partitioner/sharding/BatchWalk.h"

using namespace mlir;

namespace cleave {

namespace {
/// Classification of a value without the batch dimension: the kinds of terms that are added up in it.
struct Terms {
  /// Terms that are sums or means over the batch, or the same for each part.
  bool hasSum = false, hasMean = false, hasConstant = false;
  /// Weighted means: a loss, or the quotient of two sums.
  SmallVector<Operation *, 1> weightedMeans;
  /// Terms that are no such, each by the operation that makes it.
  SmallVector<BatchObstacle, 0> inexact;

  bool isSum() const {
    return hasSum && !hasMean && !hasConstant && weightedMeans.empty() && inexact.empty();
  }
  void add(const Terms &other) {
    hasSum |= other.hasSum;
    hasMean |= other.hasMean;
    hasConstant |= other.hasConstant;
    for (Operation *mean : other.weightedMeans)
      if (!llvm::is_contained(weightedMeans, mean))
        weightedMeans.push_back(mean);
    for (const BatchObstacle &each : other.inexact)
      if (llvm::none_of(inexact, [&](const BatchObstacle &known) { return known.op == each.op; }))
        inexact.push_back(each);
  }
};

/// Walks the operations that a loss needs, in program order.
class LossWalk {
public:
  LossWalk(func::FuncOp function, StringRef batch, Value loss)
      : function(function), loss(loss), walk(function, batch, /*allowsRandom=*/true) {}

  std::variant<LossSplit, BatchObstacle> run();

private:
  void findNeeded();
  std::optional<BatchObstacle> visit(Operation *op);
  Terms combined(Operation *op);
  std::optional<Terms> linear(OperatorOp op);
  Terms quotient(OperatorOp op);
  Terms inexact(Operation *op) const;
  std::variant<LossSplit, BatchObstacle> split(const Terms &all) const;
  void set(Operation *op, const Terms &found) {
    for (Value result : op->getResults())
      terms[result] = found;
  }

  func::FuncOp function;
  Value loss;
  /// True if a gradient of the value reaches a parameter.
  bool requiresGrad(Value value);

  BatchWalk walk;
  DenseMap<Value, bool> gradients;
  DenseSet<Operation *> needed;
  DenseMap<Value, Terms> terms;
};
} // namespace

/// The operations behind the loss and behind states that are written.
void LossWalk::findNeeded() {
  SmallVector<Operation *> next;
  auto need = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && needed.insert(op).second)
      next.push_back(op);
  };
  need(loss);
  for (WriteStateOp write : function.getOps<WriteStateOp>())
    if (needed.insert(write).second)
      next.push_back(write);
  while (!next.empty())
    llvm::for_each(usedValues(next.pop_back_val()), need);
}

static constexpr llvm::StringLiteral kNotLinear = "is not linear in sums and means over";

/// Of an operation that is not linear in `terms` of its operands, or mixes them with rows.
Terms LossWalk::inexact(Operation *op) const {
  Terms result;
  for (Value value : usedValues(op))
    if (auto known = terms.find(value); known != terms.end())
      for (const BatchObstacle &each : known->second.inexact)
        if (result.inexact.empty())
          result.inexact.push_back(each);
  if (result.inexact.empty())
    result.inexact.push_back(*walk.obstacle(op, kNotLinear));
  return result;
}

/// True if the value is computed from inputs alone, so that it has no gradient.
static bool isOfInputs(Value value) {
  SmallVector<Value> next{value};
  DenseSet<Operation *> seen;
  while (!next.empty()) {
    Operation *op = next.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto param = dyn_cast<ParamOp>(op); param && param.getRole() == "parameter")
      return false;
    llvm::append_range(next, usedValues(op));
  }
  return true;
}

bool LossWalk::requiresGrad(Value value) {
  if (auto known = gradients.find(value); known != gradients.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  auto call = dyn_cast_or_null<OperatorOp>(op);
  bool does = op && !(tensor && isa<IntegerType>(tensor.getElementType())) &&
              !(call && semanticsOf(call.getName()).stopsGradients);
  if (auto param = dyn_cast_or_null<ParamOp>(op))
    does = does && param.getRole() == "parameter";
  else if (does)
    does = llvm::any_of(usedValues(op), [&](Value used) { return requiresGrad(used); });
  return gradients[value] = does;
}

static bool isOneElement(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 1;
}

Terms LossWalk::quotient(OperatorOp op) {
  Terms result = terms.lookup(op->getOperand(0));
  auto divisor = terms.find(op->getOperand(1));
  if (divisor == terms.end()) {
    if (!walk.isOfBatchSize(op->getOperand(1)))
      return result;
    if (!result.isSum() || !walk.isProportionalToBatchSize(op->getOperand(1)))
      return inexact(op);
    result.hasSum = false;
    result.hasMean = true;
    return result;
  }
  if (!result.isSum() || !divisor->second.isSum() || !isOneElement(op->getOperand(1)) ||
      !isOfInputs(op->getOperand(1)))
    return inexact(op);
  Terms own;
  own.weightedMeans.push_back(op);
  return own;
}

/// A cast that loses no more than floating-point rounding.
static bool isLinearCast(OperatorOp op) {
  auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType()),
       to = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!from || !to)
    return false;
  const Type source = from.getElementType(), target = to.getElementType();
  return isa<FloatType, ComplexType>(target) ||
         (isa<IntegerType>(source) && isa<IntegerType>(target) &&
          target.getIntOrFloatBitWidth() >= source.getIntOrFloatBitWidth());
}

/// The terms of an operator's result, which is linear in them; nothing if it is not.
std::optional<Terms> LossWalk::linear(OperatorOp op) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  const bool isRearranged = semantics.isCast ? isLinearCast(op) : semantics.isView || semantics.mayBeView;
  const Linearity linearity = isRearranged ? Linearity::All : semantics.linearity;
  if (linearity == Linearity::None)
    return std::nullopt;
  unsigned termOperands = 0;
  Terms result;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (auto known = terms.find(operand); known != terms.end()) {
      ++termOperands;
      result.add(known->second);
      continue;
    }
    const bool isDivisor = linearity == Linearity::First && i == 1;
    if (walk.holds(operand) || (walk.isOfBatchSize(operand) && !isDivisor))
      return std::nullopt;
    // Other numbers are dimensions and scales.
    const bool isAdded = isTensorLike(operand.getType()) || (i == 1 && semantics.isElementwise &&
                                                             isa<IntegerType, FloatType>(operand.getType()));
    result.hasConstant |= linearity == Linearity::All && !isRearranged && isAdded;
  }
  switch (linearity) {
  case Linearity::Each:
    return termOperands == 1 ? std::optional(result) : std::nullopt;
  case Linearity::First:
    // With a third operand, the quotient is rounded.
    if (op->getNumOperands() != 2 || !terms.count(op->getOperand(0)))
      return std::nullopt;
    return quotient(op);
  default:
    return result;
  }
}

Terms LossWalk::combined(Operation *op) {
  const bool isAggregate = isa<ListOp, TupleOp, DictOp, UnpackOp, BoundaryOp>(op) || isItemAccess(op);
  if (isAggregate) {
    Terms result;
    for (Value operand : op->getOperands())
      if (auto known = terms.find(operand); known != terms.end())
        result.add(known->second);
      else if (walk.holds(operand))
        return inexact(op);
      else
        result.hasConstant |= isTensorLike(operand.getType());
    return result;
  }
  auto call = dyn_cast<OperatorOp>(op);
  auto found = call ? linear(call) : std::nullopt;
  return found ? *found : inexact(op);
}

/// Returns what prevents the split whatever the loss is.
std::optional<BatchObstacle> LossWalk::visit(Operation *op) {
  const bool hasTerms = llvm::any_of(usedValues(op), [&](Value value) { return terms.count(value); });
  if (hasTerms) {
    if (isa<WriteStateOp>(op))
      return inexact(op).inexact.front();
    set(op, combined(op));
    return std::nullopt;
  }
  auto call = dyn_cast<OperatorOp>(op);
  const StringRef scaling = call ? semanticsOf(call.getName()).frequencyScaling : "";
  if (!scaling.empty() && constantInt(call, scaling).value_or(1) && requiresGrad(op->getResult(0)))
    return walk.obstacle(op, "divides gradients by how often an index occurs in all of");
  const auto reduction = call ? walk.reductionOf(call) : std::nullopt;
  Terms found;
  if (reduction && *reduction != Reduction::Other) {
    found.hasSum = reduction == Reduction::Sum;
    found.hasMean = reduction == Reduction::Mean;
    if (reduction == Reduction::WeightedMean)
      found.weightedMeans.push_back(op);
    set(op, found);
    return std::nullopt;
  }
  auto obstacle = walk.visit(op);
  if (!obstacle || isa<WriteStateOp>(op) ||
      llvm::any_of(op->getResults(), [&](Value result) { return requiresGrad(result); }))
    return obstacle;
  // A statistic of the batch, as the tokens of each expert.
  found.inexact.push_back(*obstacle);
  set(op, found);
  return std::nullopt;
}

/// True if two weighted means are known to have the same normalizer. It is a function of the operands after
/// the first alone (a divisor; or labels, class weights and the label to ignore), so that equal ones suffice.
static bool haveSameNormalizer(Operation *one, Operation *other) {
  return one->getName() == other->getName() &&
         llvm::equal(one->getOperands().drop_front(), other->getOperands().drop_front());
}

std::variant<LossSplit, BatchObstacle> LossWalk::split(const Terms &all) const {
  const bool isWeighted = !all.weightedMeans.empty();
  if (!all.hasSum && !all.hasMean && !isWeighted)
    return all.inexact.empty() ? *walk.obstacle(function, "has a loss that does not depend on")
                               : all.inexact.front();
  if (all.hasSum && !all.isSum())
    return *walk.obstacle(function,
                          "has a loss that adds a term to a sum over the batch that is not a sum over");
  for (Operation *mean : all.weightedMeans)
    if (all.hasMean || !haveSameNormalizer(mean, all.weightedMeans.front()))
      return *walk.obstacle(mean, "is a mean over other elements than another term of the loss, both over");
  LossSplit result;
  result.reduction = isWeighted ? Reduction::WeightedMean : all.hasMean ? Reduction::Mean : Reduction::Sum;
  result.weightedMeans = all.weightedMeans;
  result.inexact = all.inexact;
  return result;
}

std::variant<LossSplit, BatchObstacle> LossWalk::run() {
  if (auto found = walk.checkInputs())
    return *found;
  findNeeded();
  for (Operation &op : function.getBody().front().without_terminator())
    if (needed.contains(&op))
      if (auto found = visit(&op))
        return *found;
  auto found = terms.find(loss);
  return split(found == terms.end() ? Terms() : found->second);
}

std::variant<LossSplit, BatchObstacle> splitLoss(func::FuncOp function, StringRef batch, Value loss) {
  auto result = LossWalk(function, batch, loss).run();
  // As findBatchObstacle ends its reasons.
  auto complete = [&](BatchObstacle &obstacle) { obstacle.reason += (" dimension " + batch).str(); };
  if (auto *obstacle = std::get_if<BatchObstacle>(&result))
    complete(*obstacle);
  else
    llvm::for_each(std::get<LossSplit>(result).inexact, complete);
  return result;
}

} // namespace cleave
