//===- Sharding.cpp - Indices of a dimension on each rank -----------------===//
#include "partitioner/sharding/Sharding.h"

using namespace mlir;

namespace cleave {

unsigned tensorParallelSizeOf(Operation *function) {
  auto ranks = function->getAttrOfType<IntegerAttr>(kTensorParallelSizeAttr);
  return ranks ? std::max<int64_t>(1, ranks.getInt()) : 1;
}

//===- Index sets ---------------------------------------------------------===//

IndexSets indexSetsOf(ShardingAttr sharding, int64_t size) {
  IndexSets parts;
  for (DenseI64ArrayAttr ranges : sharding.getRanks()) {
    llvm::BitVector &part = parts.emplace_back(size);
    for (int64_t i = 0; i < ranges.size(); i += 2)
      part.set(std::min(ranges[i], size), std::min(ranges[i] + ranges[i + 1], size));
  }
  return parts;
}

ShardingAttr shardingOf(MLIRContext *context, unsigned dim, const IndexSets &parts) {
  SmallVector<DenseI64ArrayAttr> ranks;
  for (const llvm::BitVector &part : parts) {
    SmallVector<int64_t> ranges;
    for (int begin = part.find_first(); begin >= 0;) {
      int end = part.find_next_unset(begin);
      end = end < 0 ? part.size() : end;
      ranges.append({begin, end - begin});
      begin = end < int(part.size()) ? part.find_next(end - 1) : -1;
    }
    ranks.push_back(DenseI64ArrayAttr::get(context, ranges));
  }
  return ShardingAttr::get(context, dim, ranks);
}

ShardingAttr shardingOf(MLIRContext *context, const LabelledDim &labelled, const ShardingGroup &found,
                        unsigned ranks) {
  std::vector<unsigned> owners(found.count);
  for (unsigned rank = 0; rank < ranks; ++rank)
    std::fill(owners.begin() + int64_t(found.count) * rank / ranks,
              owners.begin() + int64_t(found.count) * (rank + 1) / ranks, rank);
  IndexSets parts(ranks, llvm::BitVector(labelled.labels.size()));
  for (auto [position, label] : llvm::enumerate(labelled.labels))
    if (label == LabelledDim::kReplicated)
      for (llvm::BitVector &part : parts)
        part.set(position);
    else if (label < found.count)
      parts[owners[label]].set(position);
    else
      for (int32_t member : found.shared[label - found.count])
        parts[owners[member]].set(position);
  return shardingOf(context, labelled.dim, parts);
}

SmallVector<int64_t> piecesOf(ShardingAttr sharding) {
  int64_t size = sharding.getSize();
  IndexSets parts = indexSetsOf(sharding, size);
  SmallVector<int64_t> pieces, offsets(parts.size(), 0);
  for (int64_t position = 0; position < size; ++position) {
    int64_t owner = -1;
    for (auto [rank, part] : llvm::enumerate(parts)) {
      if (!part[position])
        continue;
      if (owner < 0) {
        owner = rank;
        bool continues = !pieces.empty() && pieces[pieces.size() - 3] == owner &&
                         pieces[pieces.size() - 2] + pieces.back() == offsets[rank];
        if (continues)
          ++pieces.back();
        else
          pieces.append({owner, offsets[rank], 1});
      }
      ++offsets[rank];
    }
  }
  return pieces;
}

std::optional<FactorMapping> mappingOf(const OpShardingRule &rule, ArrayRef<unsigned> dim, unsigned factor) {
  int64_t count = 1, size = rule.factors[factor].size;
  if (rule.groupedHeads && factor == rule.groupedHeads->queryHeads) {
    const OpShardingRule::Factor &each = rule.factors[rule.groupedHeads->queryHeadsPerKv];
    bool isApart = llvm::is_contained(dim, rule.groupedHeads->queryHeadsPerKv);
    factor = isApart ? rule.groupedHeads->queryHeadsPerKv : rule.groupedHeads->kvHeads;
    count = isApart ? 1 : each.size;
    size /= count;
  }
  int64_t stride = 1;
  for (unsigned inner : llvm::reverse(dim)) {
    if (inner == factor)
      return FactorMapping{stride, size, count};
    stride *= rule.factors[inner].size;
  }
  return std::nullopt;
}

IndexSets indexSetsOfDimension(const IndexSets &parts, const OpShardingRule &rule, ArrayRef<unsigned> dim,
                               unsigned factor) {
  FactorMapping mapping = *mappingOf(rule, dim, factor);
  int64_t size = 1;
  for (unsigned part : dim)
    size *= rule.factors[part].size;
  // The dimension is exactly the factor.
  if (dim.size() == 1 && mapping.count == 1 && size == mapping.size && parts.front().size() == size_t(size))
    return parts;
  assert(parts.front().size() == size_t(mapping.size * mapping.count) && "parts are of the factor");
  const int64_t period = mapping.size * mapping.stride;
  IndexSets result(parts.size(), llvm::BitVector(size));
  for (auto [own, part] : llvm::zip(result, parts))
    for (int first = part.find_first(); first >= 0;) {
      const int64_t factor = first / mapping.count;
      for (int64_t begin = factor * mapping.stride; begin < size; begin += period)
        own.set(begin, begin + mapping.stride);
      // The other factor indices that share the position are equal.
      const int64_t next = (factor + 1) * mapping.count;
      first = next < int64_t(part.size()) ? part.find_next(next - 1) : -1;
    }
  return result;
}

std::optional<IndexSets> indexSetsOfFactor(const IndexSets &parts, const OpShardingRule &rule,
                                           ArrayRef<unsigned> dim, unsigned factor) {
  auto mapping = mappingOf(rule, dim, factor);
  if (!mapping || mapping->count > 1)
    return std::nullopt;
  if (dim.size() == 1 && parts.front().size() == size_t(mapping->size))
    return parts;
  IndexSets result(parts.size(), llvm::BitVector(rule.factors[factor].size));
  for (auto [own, part] : llvm::zip(result, parts))
    for (unsigned position : part.set_bits())
      own.set(mapping->firstOf(position));
  if (indexSetsOfDimension(result, rule, dim, factor) != parts)
    return std::nullopt;
  return result;
}

//===- Calls --------------------------------------------------------------===//

namespace {
/// Divides one call, given the shardings of its tensors.
class CallSharder {
public:
  CallSharder(const AnalyzedFunction &function, const AnalyzedCall &call, ArrayRef<ShardingAttr> operands,
              ArrayRef<ShardingAttr> wanted)
      : function(function), call(call), operands(operands), wanted(wanted), op(call.op) {}
  CallSharding run();

private:
  CallSharding choose();
  CallSharding whole() const;
  bool isIndexMapped() const;
  CallSharding along() const;
  bool keepsWeights(const CallSharding &split) const;
  std::optional<CallSharding> byResults() const;
  std::optional<CallSharding> byOperands() const;
  std::optional<CallSharding> byFactor(unsigned factor, IndexSets parts) const;
  const OpShardingRule::Dims *dimsOf(ArrayRef<OpShardingRule::Dims> all, size_t index) const {
    return all.empty() ? nullptr : &all[std::min(index, all.size() - 1)];
  }
  /// Sharding of the tensor's dimension that has the factor; nothing for a tensor without it.
  ShardingAttr spread(const IndexSets &parts, const OpShardingRule::Dims *dims, unsigned factor) const;
  template <typename Try>
  std::optional<CallSharding> eachFactor(ShardingAttr sharding, const OpShardingRule::Dims *dims,
                                         Try attempt) const;

  const AnalyzedFunction &function;
  const AnalyzedCall &call;
  ArrayRef<ShardingAttr> operands, wanted;
  mutable OperatorOp op;
};
} // namespace

CallSharding CallSharder::whole() const {
  CallSharding split;
  split.operands.resize(operands.size());
  split.results.resize(wanted.size());
  return split;
}

bool CallSharder::isIndexMapped() const {
  auto isSplitThere = [&](ShardingAttr sharding) {
    return sharding && sharding.getDim() == call.indexMap->dim;
  };
  return call.indexMap && (llvm::any_of(operands, isSplitThere) || llvm::any_of(wanted, isSplitThere));
}

/// True if every rank has some indices. Kernels may not take empty tensors; attention without heads ends the
/// process.
static bool haveAll(const IndexSets &parts) {
  return llvm::all_of(parts, [](const llvm::BitVector &part) { return part.any(); });
}

CallSharding CallSharder::along() const {
  CallSharding split = whole();
  unsigned dim = call.indexMap->dim, ranks = 0;
  std::vector<IndexSets> given(operands.size());
  for (auto [i, sharding] : llvm::enumerate(operands))
    if (sharding && sharding.getDim() == dim) {
      split.operands[i] = sharding;
      ranks = sharding.getRanks().size();
      given[i] = indexSetsOf(sharding, function.sizeOf(call.operands[i], dim));
    }
  if (ranks == 0)
    return split;
  split.kind = CallSharding::Kind::IndexMapped;
  // An item that is never taken has no entry.
  for (auto [i, result] : llvm::enumerate(split.results)) {
    const auto &sources = call.indexMap->results[i];
    IndexSets parts(ranks, llvm::BitVector(sources.size()));
    bool isWhole = true;
    for (auto [position, source] : llvm::enumerate(sources))
      for (unsigned rank = 0; rank < ranks; ++rank) {
        bool hasIt = given[source.operand].empty() || given[source.operand][rank][source.position];
        parts[rank][position] = hasIt;
        isWhole &= hasIt;
      }
    if (!isWhole && !haveAll(parts))
      return whole();
    if (!isWhole)
      result = shardingOf(op->getContext(), dim, parts);
  }
  return split;
}

ShardingAttr CallSharder::spread(const IndexSets &parts, const OpShardingRule::Dims *dims,
                                 unsigned factor) const {
  if (dims)
    for (auto [d, dim] : llvm::enumerate(*dims))
      if (mappingOf(*call.rule, dim, factor))
        return shardingOf(op->getContext(), d, indexSetsOfDimension(parts, *call.rule, dim, factor));
  return {};
}

/// True if every rank's indices are one range, and none is empty.
static bool areRanges(const IndexSets &parts) {
  return llvm::all_of(parts, [](const llvm::BitVector &part) {
    return part.any() && part.count() == unsigned(part.find_last() - part.find_first() + 1);
  });
}

static bool areApart(const IndexSets &parts) {
  llvm::BitVector seen(parts.front().size());
  for (const llvm::BitVector &part : parts) {
    if (seen.anyCommon(part))
      return false;
    seen |= part;
  }
  return true;
}

std::optional<CallSharding> CallSharder::byFactor(unsigned factor, IndexSets parts) const {
  const OpSemantics &semantics = semanticsOf(op.getName());
  FactorKind kind = call.rule->factors[factor].kind;
  CallSharding split = whole();
  split.kind = CallSharding::Kind::Factor;
  split.factor = factor;
  if (kind == FactorKind::Lookup || (kind == FactorKind::Reduce && semantics.isSumOverReduceFactors))
    llvm::append_range(split.partialSums, llvm::seq<unsigned>(0, op->getNumResults()));
  else if (semantics.isSumOverReduceFactors)
    for (auto [result, partial] : call.rule->partialResults)
      if (partial == factor)
        split.partialSums.push_back(result);
  const bool givesPartialSums = !split.partialSums.empty();
  // An operator with a Broadcast factor needs an argument with its size, which becomes per-rank; without one,
  // each rank would make the elements from the first one on (arange).
  bool isMade = kind == FactorKind::Broadcast && !semantics.sizes.empty();
  const bool isComposed = kind == FactorKind::Composed;
  if (!givesPartialSums && kind != FactorKind::PassThrough && !isMade && !isComposed)
    return std::nullopt;
  // Only the first rank scales the added operand, by a number that must be constant.
  if (givesPartialSums && op.getArgument(semantics.addendScale) &&
      !op.getConstantArgument(semantics.addendScale))
    return std::nullopt;
  if (!haveAll(parts) || ((givesPartialSums || isComposed) && !areApart(parts)) ||
      ((kind == FactorKind::Lookup || isComposed) && !areRanges(parts)))
    return std::nullopt;
  for (auto [i, sharding] : llvm::enumerate(split.operands))
    if (i < call.rule->operands.size())
      sharding = spread(parts, &call.rule->operands[i], factor);
  for (auto [i, sharding] : llvm::enumerate(split.results))
    sharding = spread(parts, dimsOf(call.rule->results, i), factor);
  split.parts = std::move(parts);
  return split;
}

template <typename Try>
std::optional<CallSharding> CallSharder::eachFactor(ShardingAttr sharding, const OpShardingRule::Dims *dims,
                                                    Try attempt) const {
  if (!sharding || !dims || sharding.getDim() >= dims->size())
    return std::nullopt;
  ArrayRef<unsigned> dim = (*dims)[sharding.getDim()];
  int64_t size = 1;
  for (unsigned factor : dim)
    size *= call.rule->factors[factor].size;
  if (sharding.getSize() > size)
    return std::nullopt;
  SmallVector<unsigned> candidates(dim);
  if (call.rule->groupedHeads)
    candidates.push_back(call.rule->groupedHeads->queryHeads);
  for (unsigned factor : candidates)
    if (auto parts = indexSetsOfFactor(indexSetsOf(sharding, size), *call.rule, dim, factor))
      if (std::optional<CallSharding> split = attempt(factor, std::move(*parts)))
        return split;
  return std::nullopt;
}

/// True if weights keep their shardings. Resharding a weight costs more than resharding what is made of it,
/// and would be done on each call.
bool CallSharder::keepsWeights(const CallSharding &split) const {
  for (auto [i, sharding] : llvm::enumerate(operands))
    if (sharding && call.operands[i].value && function.isMadeOfWeights(call.operands[i].value) &&
        split.operands[i] != sharding)
      return false;
  return true;
}

/// Divides the call by the factor that gives the wanted results.
std::optional<CallSharding> CallSharder::byResults() const {
  for (auto [i, sharding] : llvm::enumerate(wanted)) {
    auto attempt = [&](unsigned factor, IndexSets parts) -> std::optional<CallSharding> {
      auto split = byFactor(factor, std::move(parts));
      return split && ArrayRef<ShardingAttr>(split->results) == wanted ? split : std::nullopt;
    };
    if (auto split = eachFactor(sharding, dimsOf(call.rule->results, i), attempt))
      return split;
  }
  return std::nullopt;
}

/// Divides the call so that it sums over the ranks' shards, or contracts with a weight's shard.
std::optional<CallSharding> CallSharder::byOperands() const {
  for (auto [i, sharding] : llvm::enumerate(operands)) {
    if (i >= call.rule->operands.size())
      break;
    bool isWeight = call.operands[i].value && function.isMadeOfWeights(call.operands[i].value);
    auto attempt = [&](unsigned factor, IndexSets parts) -> std::optional<CallSharding> {
      auto split = byFactor(factor, std::move(parts));
      return split && (!split->partialSums.empty() ||
                       call.rule->factors[factor].kind == FactorKind::Composed ||
                       (isWeight && split->operands[i] == sharding))
                 ? split
                 : std::nullopt;
    };
    if (auto split = eachFactor(sharding, &call.rule->operands[i], attempt))
      return split;
  }
  return std::nullopt;
}

CallSharding CallSharder::choose() {
  auto isSplit = [](ShardingAttr sharding) { return bool(sharding); };
  if (isRandom(op) || (llvm::none_of(operands, isSplit) && llvm::none_of(wanted, isSplit)))
    return whole();
  if (isIndexMapped())
    return along();
  if (!call.rule)
    return whole();
  std::optional<CallSharding> results = byResults();
  if (results && keepsWeights(*results))
    return *results;
  std::optional<CallSharding> parts = byOperands();
  if (parts && (!results || keepsWeights(*parts)))
    return *parts;
  return results ? *results : whole();
}

CallSharding CallSharder::run() {
  CallSharding split = choose();
  // Any shard will do for an operand that gives only dtype and device.
  if (semanticsOf(op.getName()).readsNoElements)
    split.operands.assign(operands.begin(), operands.end());
  return split;
}

CallSharding callShardingOf(const AnalyzedFunction &function, const AnalyzedCall &call,
                            ArrayRef<ShardingAttr> operands, ArrayRef<ShardingAttr> wanted) {
  return CallSharder(function, call, operands, wanted).run();
}

} // namespace cleave
