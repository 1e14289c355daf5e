//===- ShardingPropagation.cpp - What splitting one dimension entails -----===//
#include "partitioner/ShardingPropagation.h"
#include "ir/semantics/Shapes.h"
#include "llvm/ADT/SetVector.h"
#include <numeric>

using namespace mlir;

namespace cleave {

//===- Calls --------------------------------------------------------------===//

/// The tensor that a value is: items of lists and tuples are followed to who made them, boundaries are looked through.
TensorRef ShardingPropagation::origin(Value value) {
  while (auto boundary = value.getDefiningOp<BoundaryOp>())
    value = boundary.getValue();
  Operation *op = value.getDefiningOp();
  Value whole;
  std::optional<int64_t> item;
  if (auto unpack = dyn_cast_or_null<UnpackOp>(op)) {
    whole = unpack->getOperand(0);
    item = cast<OpResult>(value).getResultNumber();
  } else if (auto call = dyn_cast_or_null<OperatorOp>(op); call && semanticsOf(call.getName()).isItemAccess) {
    whole = call->getOperand(0);
    item = constantInt(call, "idx") ? constantInt(call, "idx") : constantInt(call, "i");
  }
  if (!whole || !item || *item < 0)
    return {value};
  Operation *maker = whole.getDefiningOp();
  if (isa_and_nonnull<ListOp, TupleOp>(maker) && *item < maker->getNumOperands())
    return origin(maker->getOperand(*item));
  return {whole, unsigned(*item)};
}

/// The operands as `flatOperands` counts them.
static SmallVector<OpOperand *> flatUses(OperatorOp op) {
  SmallVector<OpOperand *> flat;
  for (OpOperand &operand : op->getOpOperands()) {
    auto list = operand.get().getDefiningOp<ListOp>();
    if (list && llvm::any_of(list.getElements().getTypes(), isTensorLike))
      for (OpOperand &element : list->getOpOperands())
        flat.push_back(&element);
    else
      flat.push_back(&operand);
  }
  return flat;
}

ShardingPropagation::ShardingPropagation(func::FuncOp function) : shapes(function) {
  for (auto op : function.getBody().getOps<OperatorOp>()) {
    if (semanticsOf(op.getName()).isItemAccess)
      continue;
    Call call{op, dimensionRuleOf(op, shapes), positionRuleOf(op, shapes), flatUses(op), {}, {}};
    for (OpOperand *use : call.uses)
      call.operands.push_back(origin(use->get()));
    // A list has as many items as its maker's rule says.
    if (call.positions && isa<ListType>(op->getResult(0).getType()))
      for (unsigned item = 0; item < call.positions->results.size(); ++item)
        call.results.push_back({op->getResult(0), item});
    else
      for (Value result : op->getResults())
        call.results.push_back({result});
    for (ArrayRef<TensorRef> side : {ArrayRef(call.operands), ArrayRef(call.results)})
      for (TensorRef tensor : side)
        if (auto &users = callsOf[tensor]; users.empty() || users.back() != calls.size())
          users.push_back(calls.size());
    calls.push_back(std::move(call));
  }
}

//===- Labels -------------------------------------------------------------===//

/// One propagation.
class LabelFlow {
public:
  /// \param preference  which factor of a dimension to split where a view takes it apart, counted from the outermost.
  LabelFlow(const ShardingPropagation &function, unsigned preference) : function(function), preference(preference) {}

  SplitClass run(TensorRef tensor, unsigned dim, int64_t size);
  /// The largest number of factors that there were to choose from.
  unsigned countAlternatives() const { return alternatives; }

private:
  using Call = ShardingPropagation::Call;
  using Labels = std::vector<int32_t>;

  int32_t find(int32_t label) {
    while (parents[label] != label)
      label = parents[label] = parents[parents[label]];
    return label;
  }
  void unite(int32_t left, int32_t right) {
    left = find(left), right = find(right);
    parents[std::max(left, right)] = std::min(left, right);
  }
  /// Makes `to` the same as `label`; true where it had none.
  bool meet(int32_t &to, int32_t label);
  bool give(TensorRef tensor, unsigned dim, Labels labels);
  const Labelling *labellingOf(TensorRef tensor) const;

  void visit(unsigned index);
  void visitPositions(const Call &call);
  void visitFactors(unsigned index);
  std::optional<unsigned> chooseFactor(const Call &call);
  /// The factors of a tensor's labelled dimension; empty where it is not labelled or the rule says nothing of it.
  ArrayRef<unsigned> labelledFactors(TensorRef tensor, ArrayRef<DimensionRule::Dims> dims, size_t index) const;
  Labels project(const Labels &labels, const DimensionRule &rule, ArrayRef<unsigned> dim, unsigned factor);
  void classify(unsigned index, SplitClass &result);

  const ShardingPropagation &function;
  unsigned preference, alternatives = 1;
  Labels parents;
  llvm::MapVector<TensorRef, Labelling> tensors;
  llvm::SmallSetVector<unsigned, 16> queue, visited;
  /// By call.
  llvm::DenseMap<unsigned, unsigned> factors;
};

bool LabelFlow::meet(int32_t &to, int32_t label) {
  if (label == Labelling::kWhole)
    return false;
  if (to != Labelling::kWhole) {
    unite(to, label);
    return false;
  }
  to = label;
  return true;
}

/// A tensor that is split in another dimension stays so.
bool LabelFlow::give(TensorRef tensor, unsigned dim, Labels labels) {
  auto [entry, isNew] = tensors.insert({tensor, {dim, {}}});
  Labelling &own = entry->second;
  if (isNew)
    own.labels.assign(labels.size(), Labelling::kWhole);
  if (own.dim != dim || own.labels.size() != labels.size())
    return false;
  bool changed = false;
  for (auto [to, label] : llvm::zip(own.labels, labels))
    changed |= meet(to, label);
  if (changed)
    if (auto users = function.callsOf.find(tensor); users != function.callsOf.end())
      queue.insert(users->second.begin(), users->second.end());
  return true;
}

const Labelling *LabelFlow::labellingOf(TensorRef tensor) const {
  auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

//===- Operators ----------------------------------------------------------===//

/// Both ways along the dimension that is joined, cut or reordered.
void LabelFlow::visitPositions(const Call &call) {
  const PositionRule &rule = *call.positions;
  auto labelsOf = [&](TensorRef tensor) -> const Labels * {
    auto *found = labellingOf(tensor);
    return found && found->dim == rule.dim ? &found->labels : nullptr;
  };
  SmallVector<Labels> operands(call.operands.size()), results;
  for (auto [tensor, labels] : llvm::zip(call.operands, operands))
    if (auto *own = labelsOf(tensor))
      labels = *own;
  for (auto [tensor, sources] : llvm::zip(call.results, rule.results)) {
    const Labels *own = labelsOf(tensor);
    Labels &labels = results.emplace_back(sources.size(), Labelling::kWhole);
    for (auto [position, source] : llvm::enumerate(sources)) {
      Labels &from = operands[source.operand];
      if (own && from.empty())
        from.assign(function.sizeOf(call.operands[source.operand], rule.dim), Labelling::kWhole);
      if (own)
        meet(from[source.position], (*own)[position]);
      if (!from.empty())
        meet(labels[position], from[source.position]);
    }
  }
  auto isLabelled = [](const Labels &labels) {
    return llvm::any_of(labels, [](int32_t label) { return label != Labelling::kWhole; });
  };
  for (auto [tensor, labels] : llvm::zip(call.operands, operands))
    if (isLabelled(labels))
      give(tensor, rule.dim, labels);
  for (auto [tensor, labels] : llvm::zip(call.results, results))
    if (isLabelled(labels))
      give(tensor, rule.dim, labels);
}

ArrayRef<unsigned> LabelFlow::labelledFactors(TensorRef tensor, ArrayRef<DimensionRule::Dims> dims,
                                              size_t index) const {
  auto *labelling = labellingOf(tensor);
  // Operators of several results, as sort, give each the same dimensions.
  const DimensionRule::Dims *own = dims.empty() ? nullptr : &dims[std::min(index, dims.size() - 1)];
  return labelling && own && labelling->dim < own->size() ? ArrayRef<unsigned>((*own)[labelling->dim])
                                                          : ArrayRef<unsigned>();
}

/// Positions of a factor within a dimension: how far apart they are.
static int64_t strideOf(const DimensionRule &rule, ArrayRef<unsigned> dim, unsigned factor) {
  int64_t stride = 1;
  for (unsigned inner : llvm::reverse(dim)) {
    if (inner == factor)
      break;
    stride *= rule.factors[inner].size;
  }
  return stride;
}

/// Labels of a factor's positions from those of a dimension that it is part of.
LabelFlow::Labels LabelFlow::project(const Labels &labels, const DimensionRule &rule, ArrayRef<unsigned> dim,
                                     unsigned factor) {
  int64_t size = rule.factors[factor].size, stride = strideOf(rule, dim, factor);
  Labels projected(size, Labelling::kWhole);
  for (auto [position, label] : llvm::enumerate(labels))
    meet(projected[int64_t(position) / stride % size], label);
  return projected;
}

/// Of all factors in labelled dimensions one that most of them have. Where a view takes a dimension apart, several are left:
/// of these the one that this flow prefers, from the outermost on.
std::optional<unsigned> LabelFlow::chooseFactor(const Call &call) {
  llvm::MapVector<unsigned, unsigned> counts;
  auto count = [&](ArrayRef<TensorRef> side, ArrayRef<DimensionRule::Dims> dims) {
    for (auto [index, tensor] : llvm::enumerate(side))
      for (unsigned factor : labelledFactors(tensor, dims, index))
        counts[factor] += call.rule->factors[factor].size > 1;
  };
  count(call.operands, call.rule->operands);
  count(call.results, call.rule->results);
  unsigned most = 1;
  for (auto &[factor, tensors] : counts)
    most = std::max(most, tensors);
  SmallVector<unsigned> candidates;
  for (auto &[factor, tensors] : counts)
    if (tensors == most)
      candidates.push_back(factor);
  if (candidates.empty())
    return std::nullopt;
  alternatives = std::max<unsigned>(alternatives, candidates.size());
  return candidates[std::min<size_t>(preference, candidates.size() - 1)];
}

void LabelFlow::visitFactors(unsigned index) {
  const Call &call = function.calls[index];
  auto known = factors.find(index);
  std::optional<unsigned> factor = known != factors.end() ? std::optional(known->second) : chooseFactor(call);
  if (!factor)
    return;
  factors[index] = *factor;
  const DimensionRule &rule = *call.rule;
  Labels labels(rule.factors[*factor].size, Labelling::kWhole);
  FactorKind kind = rule.factors[*factor].kind;
  if (kind != FactorKind::Pass && kind != FactorKind::Reduce && kind != FactorKind::Lookup)
    return;
  auto collect = [&](ArrayRef<TensorRef> side, ArrayRef<DimensionRule::Dims> dims) {
    for (auto [i, tensor] : llvm::enumerate(side))
      if (ArrayRef<unsigned> dim = labelledFactors(tensor, dims, i); llvm::is_contained(dim, *factor))
        for (auto [to, label] : llvm::zip(labels, project(labellingOf(tensor)->labels, rule, dim, *factor)))
          meet(to, label);
  };
  collect(call.operands, rule.operands);
  collect(call.results, rule.results);
  auto spread = [&](ArrayRef<TensorRef> side, ArrayRef<DimensionRule::Dims> dims) {
    for (auto [i, tensor] : llvm::enumerate(side)) {
      if (dims.empty())
        continue;
      for (auto [d, dim] : llvm::enumerate(dims[std::min(i, dims.size() - 1)])) {
        if (!llvm::is_contained(dim, *factor))
          continue;
        int64_t size = 1, stride = strideOf(rule, dim, *factor);
        for (unsigned part : dim)
          size *= rule.factors[part].size;
        Labels own(size);
        for (int64_t position = 0; position < size; ++position)
          own[position] = labels[position / stride % labels.size()];
        give(tensor, d, std::move(own));
      }
    }
  };
  spread(call.operands, rule.operands);
  spread(call.results, rule.results);
}

void LabelFlow::visit(unsigned index) {
  visited.insert(index);
  const Call &call = function.calls[index];
  auto isAlong = [&](TensorRef tensor) {
    auto *own = labellingOf(tensor);
    return own && call.positions && own->dim == call.positions->dim;
  };
  if (llvm::any_of(call.operands, isAlong) || llvm::any_of(call.results, isAlong))
    visitPositions(call);
  else if (call.rule)
    visitFactors(index);
}

/// What the call owes for the split.
void LabelFlow::classify(unsigned index, SplitClass &result) {
  const Call &call = function.calls[index];
  auto known = factors.find(index);
  const DimensionRule::Factor *factor = known == factors.end() ? nullptr : &call.rule->factors[known->second];
  bool isSum = false;
  for (auto [i, tensor] : llvm::enumerate(call.operands)) {
    auto *own = labellingOf(tensor);
    if (!own)
      continue;
    bool isAlong = call.positions && own->dim == call.positions->dim;
    bool hasFactor = factor && llvm::is_contained(labelledFactors(tensor, call.rule->operands, i), known->second);
    bool isReduced = hasFactor && (factor->kind == FactorKind::Reduce || factor->kind == FactorKind::Lookup);
    isReduced &= semanticsOf(OperatorOp(call.op).getName()).isProduct || (factor && factor->kind == FactorKind::Lookup);
    isReduced &= !llvm::is_contained(own->labels, Labelling::kWhole);
    isSum |= isReduced;
    if (!isAlong && !isReduced && !(hasFactor && factor->kind == FactorKind::Pass))
      result.gathers.push_back(call.uses[i]);
  }
  if (isSum)
    result.sums.push_back(OperatorOp(call.op)->getResult(0));
}

SplitClass LabelFlow::run(TensorRef tensor, unsigned dim, int64_t size) {
  parents.resize(size);
  std::iota(parents.begin(), parents.end(), 0);
  give(tensor, dim, parents);
  while (!queue.empty()) {
    unsigned next = queue.front();
    queue.remove(next);
    visit(next);
  }
  SplitClass result;
  llvm::DenseMap<int32_t, int32_t> numbers;
  for (auto &[ref, labelling] : tensors)
    for (int32_t &label : labelling.labels)
      if (label != Labelling::kWhole)
        label = numbers.try_emplace(find(label), numbers.size()).first->second;
  result.count = numbers.size();
  SmallVector<unsigned> inOrder(visited.begin(), visited.end());
  llvm::sort(inOrder);
  for (unsigned index : inOrder)
    classify(index, result);
  result.tensors = std::move(tensors);
  return result;
}

int64_t ShardingPropagation::sizeOf(TensorRef tensor, unsigned dim) const {
  auto shape = shapes.shapeOf(tensor.value);
  return shape && dim < shape->size() ? (*shape)[dim] : 0;
}

SplitClass ShardingPropagation::propagate(TensorRef tensor, unsigned dim) const {
  std::optional<SplitClass> best;
  // Heads are outside of what a head is made of, but parts of a fused weight may be outside of heads.
  for (unsigned preference = 0, alternatives = 1; preference < alternatives; ++preference) {
    LabelFlow flow(*this, preference);
    SplitClass found = flow.run(tensor, dim, sizeOf(tensor, dim));
    alternatives = flow.countAlternatives();
    if (!best || found.gathers.size() < best->gathers.size())
      best = std::move(found);
  }
  return std::move(*best);
}

} // namespace cleave
