//===- LabelFlow.cpp - One propagation of labels --------------------------===//
#include "partitioner/LabelFlow.h"
#include "partitioner/Sharding.h"
#include <numeric>

using namespace mlir;

namespace cleave {

//===- Labels -------------------------------------------------------------===//

bool LabelFlow::meet(int32_t &to, int32_t label) {
  if (label == Labelling::kWhole || to == label)
    return false;
  if (to != Labelling::kWhole) {
    unite(to, label);
    return false;
  }
  to = label;
  return true;
}

/// Control flow, states and items that are only known when it runs are whole.
static bool canBeSplit(TensorRef tensor) {
  Operation *maker = tensor.value.getDefiningOp();
  if (auto call = dyn_cast_or_null<OperatorOp>(maker))
    return !semanticsOf(call.getName()).isItemAccess;
  return !maker || isa<ParamOp>(maker);
}

/// A tensor that is split in another dimension stays so.
bool LabelFlow::give(TensorRef tensor, unsigned dim, Labels labels) {
  if (!canBeSplit(tensor) || (isWhole && isWhole(tensor)))
    return false;
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

/// Labels of a factor's positions from those of a dimension that it is part of.
LabelFlow::Labels LabelFlow::project(const Labels &labels, const DimensionRule &rule, ArrayRef<unsigned> dim,
                                     unsigned factor) {
  if (dim.size() == 1)
    return labels;
  int64_t size = rule.factors[factor].size, stride = strideOf(rule, dim, factor);
  Labels projected(size, Labelling::kWhole);
  for (auto [position, label] : llvm::enumerate(labels))
    meet(projected[int64_t(position) / stride % size], label);
  return projected;
}

static bool isSplittable(FactorKind kind) {
  return kind == FactorKind::Pass || kind == FactorKind::Reduce || kind == FactorKind::Lookup ||
         kind == FactorKind::Broadcast;
}

/// Of the factors in labelled dimensions that can be split one that most of these dimensions have. Where a
/// view takes a dimension apart, several are left: of these the one that this flow prefers, from the
/// outermost on.
std::optional<unsigned> LabelFlow::chooseFactor(const Call &call) {
  llvm::MapVector<unsigned, unsigned> counts;
  auto count = [&](ArrayRef<TensorRef> side, ArrayRef<DimensionRule::Dims> dims) {
    for (auto [index, tensor] : llvm::enumerate(side))
      for (unsigned factor : labelledFactors(tensor, dims, index))
        if (auto [kind, size] = call.rule->factors[factor]; size > 1 && isSplittable(kind))
          ++counts[factor];
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
  const OpSemantics &semantics = semanticsOf(OperatorOp(call.op).getName());
  auto of = semantics.isView || semantics.mayBeView ? &Preference::ofViews : &Preference::ofOthers;
  alternatives.*of = std::max<unsigned>(alternatives.*of, candidates.size());
  return candidates[std::min<size_t>(preference.*of, candidates.size() - 1)];
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
  // Each rank makes its part.
  if (rule.factors[*factor].kind == FactorKind::Broadcast)
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
        if (dim.size() == 1) {
          give(tensor, d, labels);
          continue;
        }
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

bool LabelFlow::isAlong(const Call &call, TensorRef tensor) const {
  auto *own = labellingOf(tensor);
  return own && call.positions && own->dim == call.positions->dim;
}

bool LabelFlow::isAlong(const Call &call) const {
  auto isTensorAlong = [&](TensorRef tensor) { return isAlong(call, tensor); };
  return llvm::any_of(call.operands, isTensorAlong) || llvm::any_of(call.results, isTensorAlong);
}

void LabelFlow::visit(unsigned index) {
  visited.insert(index);
  const Call &call = function.calls[index];
  if (isAlong(call))
    visitPositions(call);
  else if (call.rule)
    visitFactors(index);
}

//===- What is owed -------------------------------------------------------===//

LabelFlow::Use LabelFlow::useOf(const Call &call, unsigned operand, std::optional<unsigned> factor) const {
  TensorRef tensor = call.operands[operand];
  if (isAlong(call))
    return isAlong(call, tensor) ? Use::Pass : Use::Gather;
  if (!factor || !llvm::is_contained(labelledFactors(tensor, call.rule->operands, operand), *factor))
    return Use::Gather;
  FactorKind kind = call.rule->factors[*factor].kind;
  if (kind == FactorKind::Pass)
    return Use::Pass;
  bool isSum = kind == FactorKind::Lookup ||
               (kind == FactorKind::Reduce && semanticsOf(OperatorOp(call.op).getName()).sumsParts);
  // What every rank has would be added by each.
  return isSum && !llvm::is_contained(labellingOf(tensor)->labels, Labelling::kWhole) ? Use::Sum
                                                                                      : Use::Gather;
}

bool LabelFlow::refuses(const Call &call, unsigned index, std::optional<unsigned> factor) const {
  TensorRef result = call.results[index];
  if (isAlong(call)) {
    auto isSplit = [&](const PositionRule::Source &source) {
      TensorRef tensor = call.operands[source.operand];
      return isAlong(call, tensor) && labellingOf(tensor)->labels[source.position] != Labelling::kWhole;
    };
    return !isAlong(call, result) && llvm::any_of(call.positions->results[index], isSplit);
  }
  auto &all = call.rule->results;
  if (all.empty() || llvm::is_contained(labelledFactors(result, all, index), *factor))
    return false;
  auto hasFactor = [&](const DimensionRule::Dim &dim) { return llvm::is_contained(dim, *factor); };
  return llvm::any_of(all[std::min<size_t>(index, all.size() - 1)], hasFactor);
}

/// The tensor operand that is added to a product.
static OpOperand *addedOperand(OperatorOp op) {
  StringRef name = semanticsOf(op.getName()).addedArgument;
  for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOpOperands()))
    if (!name.empty() && argument.name == name && isTensorLike(operand.get().getType()))
      return &operand;
  return nullptr;
}

/// What the call owes for the split.
void LabelFlow::classify(unsigned index, SplitClass &found) const {
  const Call &call = function.calls[index];
  OperatorOp op = call.op;
  auto known = factors.find(index);
  auto factor = known == factors.end() ? std::nullopt : std::optional(known->second);
  bool isSum = false, isSplit = false;
  for (auto [i, tensor] : llvm::enumerate(call.operands)) {
    if (!labellingOf(tensor))
      continue;
    Use use = useOf(call, i, factor);
    isSum |= use == Use::Sum;
    isSplit |= use == Use::Pass;
    if (use == Use::Gather)
      found.gathers.push_back(call.uses[i]);
  }
  if (isSum)
    found.sums.push_back(op->getResult(0));
  if (OpOperand *added = isSum ? addedOperand(op) : nullptr)
    found.addOnce.push_back(added);
  for (auto [i, result] : llvm::enumerate(call.results))
    if (auto value = cast<OpResult>(result.value); isSplit && refuses(call, i, factor))
      if (!llvm::is_contained(found.reshards, value))
        found.reshards.push_back(value);
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

} // namespace cleave
