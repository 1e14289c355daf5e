//===- ShardingPropagator.cpp - One propagation of labels -----------------===//
#include "partitioner/sharding/ShardingPropagator.h"
#include <numeric>

using namespace mlir;

namespace cleave {

//===- Labels -------------------------------------------------------------===//

/// Results of control flow, states, and items chosen at run time stay whole.
static bool canBeSplit(TensorRef tensor) {
  Operation *maker = tensor.value.getDefiningOp();
  return !maker || isa<ParamOp>(maker) || (isa<OperatorOp>(maker) && !isItemAccess(maker));
}

/// Gives labels to a dimension; a tensor that is sharded in another dimension keeps that.
bool ShardingPropagator::give(TensorRef tensor, unsigned dim, const Labels &labels) {
  if (!canBeSplit(tensor) || (isWhole && isWhole(tensor)))
    return false;
  auto [entry, isNew] = tensors.insert({tensor, {dim, {}}});
  LabelledDim &own = entry->second;
  if (isNew)
    own.labels.assign(labels.size(), LabelledDim::kReplicated);
  if (own.dim != dim || own.labels.size() != labels.size())
    return false;
  if (own.labels == labels)
    return true;
  bool changed = false;
  for (auto [to, label] : llvm::zip(own.labels, labels))
    changed |= meet(to, label);
  if (!changed)
    return true;
  if (auto users = function.callsOf.find(tensor); users != function.callsOf.end())
    queue.insert(users->second.begin(), users->second.end());
  // A copy, since the map may grow.
  if (auto linked = function.links.find(tensor); linked != function.links.end())
    give(linked->second, dim, Labels(own.labels));
  return true;
}

const LabelledDim *ShardingPropagator::labelledDimOf(TensorRef tensor) const {
  auto found = tensors.find(tensor);
  return found == tensors.end() ? nullptr : &found->second;
}

//===- Operators ----------------------------------------------------------===//

/// Propagates both ways along the dimension that is concatenated, sliced or reordered.
void ShardingPropagator::visitIndexMap(const Call &call) {
  const IndexMap &rule = *call.indexMap;
  auto labelsOf = [&](TensorRef tensor) -> const Labels * {
    auto *found = labelledDimOf(tensor);
    return found && found->dim == rule.dim ? &found->labels : nullptr;
  };
  SmallVector<Labels> operands(call.operands.size()), results;
  for (auto [tensor, labels] : llvm::zip(call.operands, operands))
    if (auto *own = labelsOf(tensor))
      labels = *own;
  for (auto [tensor, sources] : llvm::zip(call.results, rule.results)) {
    const Labels *own = labelsOf(tensor);
    Labels &labels = results.emplace_back(sources.size(), LabelledDim::kReplicated);
    for (auto [position, source] : llvm::enumerate(sources)) {
      Labels &from = operands[source.operand];
      if (own && from.empty())
        from.assign(function.sizeOf(call.operands[source.operand], rule.dim), LabelledDim::kReplicated);
      if (own)
        meet(from[source.position], (*own)[position]);
      if (!from.empty())
        meet(labels[position], from[source.position]);
    }
  }
  auto isLabelled = [](const Labels &labels) {
    return llvm::any_of(labels, [](int32_t label) { return label != LabelledDim::kReplicated; });
  };
  for (auto [tensor, labels] : llvm::zip(call.operands, operands))
    if (isLabelled(labels))
      give(tensor, rule.dim, labels);
  for (auto [tensor, labels] : llvm::zip(call.results, results))
    if (isLabelled(labels))
      give(tensor, rule.dim, labels);
}

ArrayRef<unsigned> ShardingPropagator::labelledFactors(TensorRef tensor, ArrayRef<OpShardingRule::Dims> dims,
                                                       size_t index) const {
  auto *labelled = labelledDimOf(tensor);
  // Operators with several results, such as sort, give all of them the same dimensions.
  const OpShardingRule::Dims *own = dims.empty() ? nullptr : &dims[std::min(index, dims.size() - 1)];
  return labelled && own && labelled->dim < own->size() ? ArrayRef<unsigned>((*own)[labelled->dim])
                                                        : ArrayRef<unsigned>();
}

/// Merges the labels of a dimension into those of one of its factors; `projected` is empty if the factor has
/// none yet.
void ShardingPropagator::project(const Labels &labels, const FactorMapping &mapping, Labels &projected) {
  // Mostly the dimension is exactly the factor, with the same labels.
  if (mapping.stride == 1 && size_t(mapping.size) == labels.size()) {
    if (projected.empty())
      projected = labels;
    if (projected == labels)
      return;
  }
  projected.resize(mapping.size, LabelledDim::kReplicated);
  mapping.forEach(labels.size(),
                  [&](int64_t position, int64_t first) { meet(projected[first], labels[position]); });
}

/// A value that a group shares is on each rank that has one of the group's indices.
const ShardingPropagator::Labels &ShardingPropagator::labelSharedHeads(unsigned index, const Labels &labels,
                                                                       int64_t headsPerGroup) {
  Labels &own = sharedLabels[index];
  own.resize(labels.size() / headsPerGroup, LabelledDim::kReplicated);
  for (auto [group, cover] : llvm::enumerate(own)) {
    ArrayRef<int32_t> members = ArrayRef(labels).slice(group * headsPerGroup, headsPerGroup);
    if (llvm::is_contained(members, LabelledDim::kReplicated))
      continue;
    if (cover == LabelledDim::kReplicated) {
      cover = parents.size();
      parents.push_back(cover);
    }
    for (int32_t member : members)
      requirements.insert({cover, member});
  }
  return own;
}

static bool isSplittable(FactorKind kind) {
  return kind == FactorKind::PassThrough || kind == FactorKind::Reduce || kind == FactorKind::Lookup ||
         kind == FactorKind::Composed || kind == FactorKind::Broadcast;
}

/// Of the factors in labelled dimensions that can be sharded, the one that most of these dimensions have. If
/// a view takes a dimension apart, several are left; the preference chooses among them, from the outermost
/// on.
std::optional<unsigned> ShardingPropagator::chooseFactor(const Call &call) {
  llvm::MapVector<unsigned, unsigned> counts;
  auto count = [&](ArrayRef<TensorRef> side, ArrayRef<OpShardingRule::Dims> dims) {
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
  const auto &heads = call.rule->groupedHeads;
  for (auto &[factor, tensors] : counts)
    if (tensors == most) {
      // Prefer groups to the factors inside them.
      bool isOnlyGroup =
          heads && factor == heads->queryHeadsPerKv && call.rule->factors[heads->kvHeads].size == 1;
      if (!isOnlyGroup)
        candidates.push_back(factor);
      if (isOnlyGroup || (heads && factor == heads->kvHeads &&
                          isSplittable(call.rule->factors[heads->queryHeadsPerKv].kind)))
        candidates.push_back(heads->queryHeads);
    }
  if (candidates.empty())
    return std::nullopt;
  const OpSemantics &semantics = semanticsOf(OperatorOp(call.op).getName());
  auto of = semantics.isView || semantics.mayBeView ? &Preference::ofViews : &Preference::ofOthers;
  alternatives.*of = std::max<unsigned>(alternatives.*of, candidates.size());
  return candidates[std::min<size_t>(preference.*of, candidates.size() - 1)];
}

void ShardingPropagator::visitFactors(unsigned index) {
  const Call &call = function.calls[index];
  auto known = factors.find(index);
  std::optional<unsigned> factor = known != factors.end() ? std::optional(known->second) : chooseFactor(call);
  if (!factor)
    return;
  factors[index] = *factor;
  const OpShardingRule &rule = *call.rule;
  // Each rank makes its shard.
  if (rule.factors[*factor].kind == FactorKind::Broadcast)
    return;
  Labels labels;
  auto collect = [&](ArrayRef<TensorRef> side, ArrayRef<OpShardingRule::Dims> dims) {
    for (auto [i, tensor] : llvm::enumerate(side))
      if (auto mapping = mappingOf(rule, labelledFactors(tensor, dims, i), *factor);
          mapping && mapping->count == 1)
        project(labelledDimOf(tensor)->labels, *mapping, labels);
  };
  collect(call.operands, rule.operands);
  collect(call.results, rule.results);
  labels.resize(rule.factors[*factor].size, LabelledDim::kReplicated);
  auto spread = [&](ArrayRef<TensorRef> side, ArrayRef<OpShardingRule::Dims> dims) {
    for (auto [i, tensor] : llvm::enumerate(side)) {
      if (dims.empty())
        continue;
      for (auto [at, dim] : llvm::enumerate(dims[std::min(i, dims.size() - 1)])) {
        unsigned d = at;
        auto mapping = mappingOf(rule, dim, *factor);
        if (!mapping)
          continue;
        const Labels &from = mapping->count > 1 ? labelSharedHeads(index, labels, mapping->count) : labels;
        if (dim.size() == 1 && mapping->count == 1) {
          give(tensor, d, labels);
          continue;
        }
        int64_t size = 1;
        for (unsigned part : dim)
          size *= rule.factors[part].size;
        Labels own(size);
        mapping->forEach(
            size, [&](int64_t position, int64_t first) { own[position] = from[first / mapping->count]; });
        // A view drops a dimension of one group, so all indices of the last dimension get the group's label.
        if (mapping->count > 1 && size == 1) {
          d = function.typeOf(tensor).getRank() - 1;
          own.assign(function.sizeOf(tensor, d), own.front());
        }
        give(tensor, d, own);
      }
    }
  };
  spread(call.operands, rule.operands);
  spread(call.results, rule.results);
}

bool ShardingPropagator::isIndexMapped(const Call &call, TensorRef tensor) const {
  auto *own = labelledDimOf(tensor);
  return own && call.indexMap && own->dim == call.indexMap->dim;
}

bool ShardingPropagator::isIndexMapped(const Call &call) const {
  auto isTensorIndexMapped = [&](TensorRef tensor) { return isIndexMapped(call, tensor); };
  return llvm::any_of(call.operands, isTensorIndexMapped) || llvm::any_of(call.results, isTensorIndexMapped);
}

void ShardingPropagator::visit(unsigned index) {
  visited.insert(index);
  const Call &call = function.calls[index];
  if (isIndexMapped(call))
    visitIndexMap(call);
  else if (call.rule)
    visitFactors(index);
}

//===- Collectives --------------------------------------------------------===//

ShardingPropagator::Use ShardingPropagator::useOf(unsigned index, unsigned operand,
                                                  std::optional<unsigned> factor) const {
  const Call &call = function.calls[index];
  TensorRef tensor = call.operands[operand];
  if (isIndexMapped(call))
    return isIndexMapped(call, tensor) ? Use::Pass : Use::Gather;
  auto mapping = factor
                     ? mappingOf(*call.rule, labelledFactors(tensor, call.rule->operands, operand), *factor)
                     : std::nullopt;
  // A shared value is sharded only with the group that shares it.
  if (!mapping || (mapping->count > 1 && !sharedLabels.contains(index)))
    return Use::Gather;
  FactorKind kind = call.rule->factors[*factor].kind;
  if (kind == FactorKind::PassThrough)
    return Use::Pass;
  bool isSum =
      kind == FactorKind::Lookup ||
      (kind == FactorKind::Reduce && semanticsOf(OperatorOp(call.op).getName()).isSumOverReduceFactors);
  // Indices on several ranks would be added more than once.
  auto isApart = [&](int32_t label) { return label != LabelledDim::kReplicated && label < count; };
  if (!llvm::all_of(labelledDimOf(tensor)->labels, isApart))
    return Use::Gather;
  return kind == FactorKind::Composed ? Use::Pass : isSum ? Use::Sum : Use::Gather;
}

bool ShardingPropagator::refuses(const Call &call, unsigned index, std::optional<unsigned> factor) const {
  TensorRef result = call.results[index];
  if (isIndexMapped(call)) {
    auto isSplit = [&](const IndexMap::Source &source) {
      TensorRef tensor = call.operands[source.operand];
      return isIndexMapped(call, tensor) &&
             labelledDimOf(tensor)->labels[source.position] != LabelledDim::kReplicated;
    };
    return !isIndexMapped(call, result) && llvm::any_of(call.indexMap->results[index], isSplit);
  }
  auto &all = call.rule->results;
  if (all.empty() || mappingOf(*call.rule, labelledFactors(result, all, index), *factor))
    return false;
  auto hasFactor = [&](const OpShardingRule::Dim &dim) {
    return mappingOf(*call.rule, dim, *factor).has_value();
  };
  return llvm::any_of(all[std::min<size_t>(index, all.size() - 1)], hasFactor);
}

/// The tensor operand that is added to a contraction.
static OpOperand *addedOperand(OperatorOp op) {
  StringRef name = semanticsOf(op.getName()).addend;
  for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOpOperands()))
    if (!name.empty() && argument.name == name && isTensorLike(operand.get().getType()))
      return &operand;
  return nullptr;
}

/// Adds the collectives that the call needs.
void ShardingPropagator::classify(unsigned index, ShardingGroup &found) const {
  const Call &call = function.calls[index];
  OperatorOp op = call.op;
  auto known = factors.find(index);
  auto factor = known == factors.end() ? std::nullopt : std::optional(known->second);
  bool isSum = false, isSplit = false;
  for (auto [i, tensor] : llvm::enumerate(call.operands)) {
    if (!labelledDimOf(tensor))
      continue;
    Use use = useOf(index, i, factor);
    isSum |= use == Use::Sum;
    isSplit |= use == Use::Pass;
    if (use == Use::Gather)
      found.gathers.push_back(call.uses[i]);
  }
  if (isSum)
    found.partialSums.push_back(op->getResult(0));
  if (isSplit && factor && !isIndexMapped(call))
    for (auto [result, partial] : call.rule->partialResults)
      if (partial == *factor && !op->getResult(result).use_empty())
        found.partialSums.push_back(op->getResult(result));
  if (OpOperand *added = isSum ? addedOperand(op) : nullptr)
    found.addOnce.push_back(added);
  for (auto [i, result] : llvm::enumerate(call.results))
    if (auto value = cast<OpResult>(result.value); isSplit && refuses(call, i, factor))
      if (!llvm::is_contained(found.reshards, value))
        found.reshards.push_back(value);
}

//===- Sharding group -----------------------------------------------------===//

/// All labels whose ranks a label must cover, itself first.
static llvm::SmallSetVector<int32_t, 4> reachedFrom(int32_t label,
                                                    const ShardingPropagator::RequiredBy &requiredBy) {
  llvm::SmallSetVector<int32_t, 4> reached;
  reached.insert(label);
  for (unsigned i = 0; i < reached.size(); ++i)
    if (auto members = requiredBy.find(reached[i]); members != requiredBy.end())
      reached.insert(members->second.begin(), members->second.end());
  return reached;
}

/// By label that must be on each rank of some others: these. Labels that depend on each other are merged.
ShardingPropagator::RequiredBy ShardingPropagator::mergeCycles() {
  while (true) {
    RequiredBy requiredBy;
    for (auto [label, member] : requirements)
      if (find(label) != find(member))
        requiredBy[find(label)].push_back(find(member));
    auto isCycle = [&](const std::pair<int32_t, int32_t> &need) {
      return find(need.first) != find(need.second) &&
             reachedFrom(find(need.second), requiredBy).contains(find(need.first));
    };
    auto cycle = llvm::find_if(requirements, isCycle);
    if (cycle == requirements.end())
      return requiredBy;
    unite(cycle->first, cycle->second);
  }
}

/// Marks a label without a number.
static constexpr int32_t kUnnumbered = -2;

/// Numbers the labels of the sharding group. Returns, by label, its number.
std::vector<int32_t> ShardingPropagator::number(ShardingGroup &found) {
  const RequiredBy requiredBy = mergeCycles();
  std::vector<int32_t> numbers(parents.size(), kUnnumbered);
  llvm::SetVector<int32_t> sharing;
  for (auto &[ref, labelled] : tensors)
    for (int32_t given : labelled.labels) {
      int32_t label = given == LabelledDim::kReplicated ? given : find(given);
      if (label == LabelledDim::kReplicated || numbers[label] != kUnnumbered || sharing.contains(label))
        continue;
      auto reached = reachedFrom(label, requiredBy);
      if (llvm::any_of(reached, [&](int32_t other) { return everywhere.contains(other); }))
        numbers[label] = LabelledDim::kReplicated;
      else if (reached.size() > 1)
        sharing.insert(label);
      else
        numbers[label] = found.count++;
    }
  for (int32_t label : sharing) {
    std::vector<int32_t> members;
    for (int32_t member : reachedFrom(label, requiredBy))
      if (numbers[member] >= 0 && numbers[member] < found.count)
        members.push_back(numbers[member]);
    const bool isWhole = int32_t(members.size()) == found.count;
    numbers[label] = isWhole ? LabelledDim::kReplicated : found.count + int32_t(found.shared.size());
    if (!isWhole)
      found.shared.push_back(std::move(members));
  }
  return numbers;
}

/// Makes the sharding group of the present labels.
ShardingGroup ShardingPropagator::conclude() {
  ShardingGroup result;
  const std::vector<int32_t> numbers = number(result);
  llvm::MapVector<TensorRef, LabelledDim> flowed = std::move(tensors);
  tensors = {};
  for (auto &[ref, labelled] : flowed) {
    LabelledDim own = labelled;
    for (int32_t &label : own.labels)
      label = label == LabelledDim::kReplicated ? label : numbers[find(label)];
    if (llvm::any_of(own.labels, [](int32_t label) { return label != LabelledDim::kReplicated; }))
      tensors.insert({ref, std::move(own)});
    else if (llvm::none_of(labelled.labels, [&](int32_t label) {
               return label != LabelledDim::kReplicated && everywhere.contains(find(label));
             }))
      result.replicated.push_back(ref);
  }
  count = result.count;
  for (unsigned index : visited)
    classify(index, result);
  result.tensors = std::move(tensors);
  tensors = std::move(flowed);
  return result;
}

ShardingGroup ShardingPropagator::run(TensorRef tensor, unsigned dim, int64_t size) {
  parents.resize(size);
  std::iota(parents.begin(), parents.end(), 0);
  give(tensor, dim, parents);
  while (!queue.empty()) {
    unsigned next = *queue.begin();
    queue.erase(queue.begin());
    visit(next);
  }
  return conclude();
}

ShardingGroup ShardingPropagator::keepReplicated(ShardingGroup found) {
  while (!found.gathers.empty()) {
    for (OpOperand *use : found.gathers)
      for (int32_t label : tensors.find(AnalyzedFunction::tensorOf(use->get()))->second.labels)
        if (label != LabelledDim::kReplicated)
          everywhere.insert(find(label));
    found = conclude();
  }
  return found;
}

} // namespace cleave
