//===- PartitionSpmd.cpp - SPMD program of tensor-parallel ranks ----------===//
#include "ir/semantics/Shapes.h"
#include "mlir/IR/Matchers.h"
#include "partitioner/sharding/Sharding.h"
#include "passes/Passes.h"
#include "passes/SpmdBuilder.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PARTITIONSPMD
#include "passes/Passes.h.inc"

namespace {
/// Replaces each operation by a rank's part of it.
class Partitioner : SpmdBuilder {
public:
  Partitioner(func::FuncOp function, unsigned ranks)
      : SpmdBuilder(function, ranks), function(function), analyzed(function) {}
  void run();

private:
  struct SplitCall {
    const AnalyzedCall *call;
    CallSharding split;
    SmallVector<ShardingAttr> operands;
  };

  void planCalls();
  void noteShards();
  void partitionParam(ParamOp param);
  Value gatheredPieces(ReshardOp op, ShardingAttr from);
  void partitionReshard(ReshardOp op, ShardingAttr from, ShardingAttr to);
  void partitionCall(const SplitCall &planned);
  void localizeSizes(const SplitCall &planned);
  void spreadGroups(const SplitCall &planned);
  void addOnce(OperatorOp op);
  void maskLookup(const SplitCall &planned);
  void reorder(const SplitCall &planned);
  void compose(const SplitCall &planned);
  void shareDraws(OperatorOp op);
  OpResult weighted(OpResult mean, const IndexSets &parts);
  void reduce(OpResult result);

  func::FuncOp function;
  AnalyzedFunction analyzed;
  std::vector<SplitCall> calls;
};
} // namespace

//===- Shards of tensors --------------------------------------------------===//

static std::vector<Ranges> rangesOf(ShardingAttr sharding) {
  std::vector<Ranges> ranges;
  for (DenseI64ArrayAttr own : sharding.getRanks())
    ranges.emplace_back(own.asArrayRef());
  return ranges;
}

void Partitioner::partitionParam(ParamOp param) {
  ShardingAttr sharding = shardingOf(TensorRef{param});
  if (!sharding)
    return;
  auto type = cast<RankedTensorType>(param.getType());
  param.setShardAttr(sharding);
  param.getResult().setType(
      RankedTensorType::get(sharding.shapeOf(0, type.getShape()), type.getElementType()));
}

/// A value that only the caller takes is gathered by the first rank, which returns it.
Value Partitioner::gatheredPieces(ReshardOp op, ShardingAttr from) {
  bool isOutput = llvm::all_of(op->getUsers(), [](Operation *user) { return isa<func::ReturnOp>(user); });
  SmallVector<int64_t> pieces = piecesOf(from);
  SmallVector<Attribute> all(ranks, intsAttr(builder, isOutput ? ArrayRef<int64_t>() : pieces));
  all[0] = intsAttr(builder, pieces);
  return perRank(intsType(builder.getContext()), all);
}

void Partitioner::partitionReshard(ReshardOp op, ShardingAttr from, ShardingAttr to) {
  builder.setInsertionPoint(op);
  location = op.getLoc();
  Value value = op.getValue(), result;
  Type type = intsType(builder.getContext());
  if (!from) {
    result = pick(value, to.getDim(), rangesOf(to), /*copies=*/true);
  } else if (!to) {
    result = call("spmd.all_gather", {value, constant(from.getDim()), gatheredPieces(op, from)});
  } else if (from.getDim() == to.getDim()) {
    result = call("spmd.all_gather", {value, constant(from.getDim()), ints(piecesOf(from))});
    result = pick(result, to.getDim(), rangesOf(to), /*copies=*/true);
  } else {
    SmallVector<Attribute> lists;
    for (const Ranges &own : rangesOf(to))
      lists.push_back(intsAttr(builder, own));
    result = call("spmd.all_to_all", {value, constant(from.getDim()), ints(piecesOf(from)),
                                      constant(to.getDim()), perRank(type, lists)});
  }
  result.getDefiningOp()->setLoc(location);
  if (!to)
    result.setType(op.getType());
  result = laidOut(result, op.getType());
  op.getResult().replaceAllUsesWith(result);
  op.erase();
}

//===- Calls --------------------------------------------------------------===//

/// The ranges that consecutive numbers form.
static Ranges runsOf(ArrayRef<int64_t> positions) {
  Ranges runs;
  for (int64_t position : positions)
    if (!runs.empty() && runs[runs.size() - 2] + runs.back() == position)
      ++runs.back();
    else
      runs.append({position, 1});
  return runs;
}

static SmallVector<int64_t> countsOf(const IndexSets &parts) {
  return llvm::map_to_vector(parts, [](const llvm::BitVector &part) { return int64_t(part.count()); });
}

static void setArgument(OperatorOp op, StringRef name, Value value) {
  for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOpOperands()))
    if (argument.name == name)
      operand.set(value);
}

/// Replaces constant sizes by per-rank ones.
void Partitioner::localizeSizes(const SplitCall &planned) {
  OperatorOp op = planned.call->op;
  const OpSemantics &semantics = semanticsOf(op.getName());
  ShardingAttr result = planned.split.results[semantics.sizesResult];
  StringRef name = semantics.sizes;
  Value sizes = name.empty() ? Value() : op.getArgument(name);
  if (!sizes || !result)
    return;
  Attribute known;
  matchPattern(sizes, m_Constant(&known));
  auto list = sizes.getDefiningOp<ListOp>();
  const auto items = dyn_cast_or_null<ArrayAttr>(known);
  const size_t count = items ? items.size() : list ? list->getNumOperands() : 0;
  int64_t entry = result.getDim();
  // The sizes of the dimensions that a view takes one dimension apart into.
  if (auto dim = constantInt(op, "dim"); dim && count < planned.call->rule->results[0].size())
    if (auto first = dimensionAt(*dim, planned.call->rule->operands[0].size()))
      entry -= *first;
  if (entry < 0 || entry >= int64_t(count))
    return;
  // For a Broadcast factor, the argument counts copies.
  const auto &factor = planned.call->rule->factors[planned.split.factor];
  bool isMade = factor.kind == FactorKind::Broadcast;
  int64_t total = isMade ? factor.size : result.getSize();
  SmallVector<int64_t> extents = isMade ? countsOf(planned.split.parts) : result.getExtents();
  auto isTotal = [&](Attribute value) {
    auto number = dyn_cast_or_null<IntegerAttr>(value);
    return number && number.getInt() == total;
  };
  if (items) {
    if (!isTotal(items[entry]))
      return;
    SmallVector<Attribute> all;
    for (int64_t extent : extents) {
      SmallVector<Attribute> own(items.begin(), items.end());
      own[entry] = builder.getI64IntegerAttr(extent);
      all.push_back(builder.getArrayAttr(own));
    }
    setArgument(op, name, perRank(sizes.getType(), all));
  } else {
    Attribute value;
    if (!matchPattern(list->getOperand(entry), m_Constant(&value)) || !isTotal(value))
      return;
    SmallVector<Value> elements(list.getElements());
    elements[entry] = perRank(extents);
    setArgument(op, name, builder.create<ListOp>(location, list.getType(), elements));
  }
}

/// Repeats a value that groups share for each index that takes it: if a rank has parts of several groups,
/// these may differ in size, which the operator does not support.
void Partitioner::spreadGroups(const SplitCall &planned) {
  const OpShardingRule &rule = *planned.call->rule;
  int64_t each = rule.factors[rule.groupedHeads->queryHeadsPerKv].size;
  std::vector<Ranges> ranges;
  bool isEven = true;
  for (const llvm::BitVector &part : planned.split.parts) {
    SmallVector<int64_t> taken;
    for (int64_t position : part.set_bits())
      taken.push_back(taken.empty() ? 0
                                    : taken.back() + (position / each != part.find_prev(position) / each));
    for (auto [i, group] : llvm::enumerate(taken))
      isEven &= group == int64_t(i) / (int64_t(taken.size()) / (taken.back() + 1));
    ranges.push_back(runsOf(taken));
  }
  if (isEven)
    return;
  for (auto [use, dims] : llvm::zip(planned.call->uses, rule.operands))
    if (auto dim = llvm::find(dims, OpShardingRule::Dim{rule.groupedHeads->kvHeads}); dim != dims.end())
      use->set(pick(use->get(), dim - dims.begin(), ranges));
}

/// The first rank alone adds the bias of a partial sum.
void Partitioner::addOnce(OperatorOp op) {
  const OpSemantics &semantics = semanticsOf(op.getName());
  if (semantics.addend.empty())
    return;
  for (auto [i, argument] : llvm::enumerate(op.getSchema().arguments)) {
    OpOperand &operand = op->getOpOperand(i);
    if (argument.name == semantics.addend && isTensorLike(operand.get().getType()) &&
        StringRef(argument.type).starts_with("Optional["))
      operand.set(builder.create<FirstRankOp>(location, operand.get().getType(), operand.get()));
    if (argument.name == semantics.addendScale) {
      SmallVector<Attribute> factors(ranks, builder.getI64IntegerAttr(0));
      Attribute given;
      matchPattern(operand.get(), m_Constant(&given));
      factors[0] = given ? given : builder.getI64IntegerAttr(1);
      if (auto number = dyn_cast<FloatAttr>(factors[0]))
        std::fill(factors.begin() + 1, factors.end(), builder.getF64FloatAttr(0));
      operand.set(perRank(operand.get().getType(), factors));
    }
  }
}

/// Rows on other ranks are looked up as zeros. An index outside the whole table still fails, on the rank with
/// the table's nearest end.
void Partitioner::maskLookup(const SplitCall &planned) {
  OperatorOp op = planned.call->op;
  const OpShardingRule &rule = *planned.call->rule;
  const bool isNarrow = llvm::any_of(planned.call->uses, [](OpOperand *use) {
    auto type = dyn_cast<RankedTensorType>(use->get().getType());
    return type && type.getElementType().isInteger(32);
  });
  const int64_t least = isNarrow ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min(),
                most = isNarrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  SmallVector<int64_t> begins, firsts, lasts;
  for (const llvm::BitVector &part : planned.split.parts) {
    begins.push_back(part.find_first());
    firsts.push_back(part.find_first() == 0 ? least : 0);
    lasts.push_back(part.find_last() + 1 == int(part.size()) ? most : int64_t(part.count()) - 1);
  }
  // The operand whose values are the indices: the tensor without the factor.
  for (auto [i, use] : llvm::enumerate(planned.call->uses)) {
    bool isTable = llvm::any_of(rule.operands[i],
                                [&](auto &dim) { return llvm::is_contained(dim, planned.split.factor); });
    if (isTable || !isTensorLike(use->get().getType()))
      continue;
    Value one = constant(1);
    Value local = call("aten.sub.Scalar", {use->get(), perRank(begins), one});
    Value own = call("aten.clamp", {local, perRank(firsts), perRank(lasts)});
    Value isOther = call("aten.ne.Tensor", {local, own});
    use->set(own);
    builder.setInsertionPointAfter(op);
    // The dimensions of the indices are in the result where the first and the last of them are.
    auto &result = rule.results[0];
    unsigned last = 0;
    for (auto [d, dim] : llvm::enumerate(result))
      for (auto &given : rule.operands[i])
        if (dim == given)
          last = d;
    for (unsigned d = last + 1; d < result.size(); ++d)
      isOther = call("aten.unsqueeze", {isOther, constant(-1)});
    Value whole = op->getResult(0);
    Value masked = call("aten.masked_fill.Scalar", {whole, isOther, constant(0)});
    masked.setType(whole.getType());
    whole.replaceAllUsesExcept(masked, masked.getDefiningOp());
    reduce(cast<OpResult>(masked));
    return;
  }
}

/// Each rank draws random numbers, and all take those of the first rank.
void Partitioner::shareDraws(OperatorOp op) {
  for (OpResult result : op->getResults())
    if (isTensorLike(result.getType())) {
      builder.setInsertionPointAfter(op);
      location = op->getLoc();
      Value shared = call("spmd.broadcast", {result, constant(0)});
      shared.getDefiningOp()->setLoc(location);
      shared.setType(result.getType());
      llvm::SmallPtrSet<Operation *, 1> except{shared.getDefiningOp()};
      result.replaceAllUsesExcept(shared, except);
    }
}

/// A mean of a shard, weighted by its share of the elements.
OpResult Partitioner::weighted(OpResult mean, const IndexSets &parts) {
  SmallVector<double> shares;
  for (const llvm::BitVector &part : parts)
    shares.push_back(double(part.count()) / part.size());
  builder.setInsertionPointAfter(mean.getOwner());
  Value weighted = call("aten.mul.Scalar", {mean, perRank(shares)});
  weighted.getDefiningOp()->setLoc(mean.getLoc());
  weighted.setType(mean.getType());
  mean.replaceAllUsesExcept(weighted, weighted.getDefiningOp());
  return cast<OpResult>(weighted);
}

/// All-reduces a partial sum.
void Partitioner::reduce(OpResult result) {
  builder.setInsertionPointAfter(result.getOwner());
  Value sum = call("spmd.all_reduce", result);
  Operation *collective = sum.getDefiningOp();
  collective->setLoc(result.getLoc());
  sum.setType(result.getType());
  result.replaceAllUsesExcept(laidOut(sum, result.getType()), collective);
}

/// Takes each index of the results from its place in the rank's shards of the operands.
void Partitioner::reorder(const SplitCall &planned) {
  OperatorOp op = planned.call->op;
  const IndexMap &rule = *planned.call->indexMap;
  // By rank, operand and index: its offset in the concatenation of the rank's operands.
  std::vector<std::vector<std::vector<int64_t>>> places(ranks);
  std::vector<int64_t> counts(ranks, 0);
  for (auto [i, sharding] : llvm::enumerate(planned.operands)) {
    int64_t size = sharding ? sharding.getSize() : 0;
    for (const auto &sources : rule.results)
      for (const IndexMap::Source &source : sources)
        if (source.operand == i)
          size = std::max(size, source.position + 1);
    IndexSets parts = sharding ? indexSetsOf(sharding, size) : IndexSets(ranks, llvm::BitVector(size, true));
    for (unsigned rank = 0; rank < ranks; ++rank) {
      std::vector<int64_t> &own = places[rank].emplace_back(size, -1);
      for (unsigned position : parts[rank].set_bits())
        own[position] = counts[rank]++;
    }
  }
  SmallVector<Value> results;
  Value source = op->getOperand(0);
  bool joins = source.getDefiningOp<ListOp>() && isa<ListType>(source.getType());
  builder.setInsertionPointAfter(op);
  for (const auto &sources : rule.results) {
    std::vector<Ranges> ranges;
    bool isAll = true;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      SmallVector<int64_t> taken;
      for (const IndexMap::Source &from : sources)
        if (int64_t place = places[rank][from.operand][from.position]; place >= 0)
          taken.push_back(place);
      ranges.push_back(runsOf(taken));
      isAll &= ranges.back() == Ranges{0, counts[rank]} || (taken.empty() && counts[rank] == 0);
    }
    if (joins && isAll)
      return;
    results.push_back(pick(joins ? op->getResult(0) : source, rule.dim, ranges));
    results.back().getDefiningOp()->setLoc(location);
    // A whole item may be a result of the function, whose types are known.
    unsigned item = results.size() - 1;
    if (item < planned.call->results.size() && !planned.split.results[item])
      if (auto type = analyzed.typeOf(planned.call->results[item]))
        results.back().setType(type);
  }
  Value result = op->getResult(0);
  if (isTensorLike(result.getType()))
    result.replaceAllUsesExcept(results[0], results[0].getDefiningOp());
  else
    result.replaceAllUsesWith(builder.create<ListOp>(location, result.getType(), results));
}

/// Puts the operators in the place of the call that do its work on a range.
void Partitioner::compose(const SplitCall &planned) {
  OperatorOp op = planned.call->op;
  SmallVector<int64_t> begins;
  for (const llvm::BitVector &part : planned.split.parts)
    begins.push_back(part.find_first());
  const SmallVector<int64_t> counts = countsOf(planned.split.parts);
  const ShardedForm form(builder, location, begins, counts);
  SmallVector<Value> results = semanticsOf(op.getName()).shardedForm(op, form);
  for (auto [old, result, sharding] : llvm::zip(op->getResults(), results, planned.split.results)) {
    if (!sharding)
      result.setType(old.getType());
    old.replaceAllUsesWith(result);
  }
  op->erase();
}

void Partitioner::partitionCall(const SplitCall &planned) {
  OperatorOp op = planned.call->op;
  const CallSharding &split = planned.split;
  builder.setInsertionPoint(op);
  location = op->getLoc();
  if (split.kind == CallSharding::Kind::IndexMapped)
    return reorder(planned);
  localizeSizes(planned);
  if (const auto &heads = planned.call->rule->groupedHeads; heads && split.factor == heads->queryHeads)
    spreadGroups(planned);
  StringRef groups = semanticsOf(op.getName()).groups;
  if (!groups.empty() && planned.call->rule->channelGroups == split.factor)
    setArgument(op, groups, perRank(countsOf(split.parts)));
  if (planned.call->rule->factors[split.factor].kind == FactorKind::Composed)
    return compose(planned);
  if (split.partialSums.empty())
    return;
  if (planned.call->rule->factors[split.factor].kind == FactorKind::Lookup)
    return maskLookup(planned);
  addOnce(op);
  for (unsigned index : split.partialSums)
    if (OpResult result = op->getResult(index); !result.use_empty())
      reduce(semanticsOf(op.getName()).isMean ? weighted(result, split.parts) : result);
}

void Partitioner::planCalls() {
  for (const AnalyzedCall &call : analyzed.getCalls()) {
    SmallVector<ShardingAttr> operands, results;
    for (TensorRef tensor : call.operands)
      operands.push_back(shardingOf(tensor));
    for (TensorRef tensor : call.results)
      results.push_back(shardingOf(tensor));
    CallSharding split = callShardingOf(analyzed, call, operands, results);
    if (split.kind != CallSharding::Kind::Replicated)
      calls.push_back({&call, std::move(split), std::move(operands)});
  }
}

/// Observes say what each rank has of a value, whose type will be that of a part.
void Partitioner::noteShards() {
  for (ObserveOp op : llvm::make_early_inc_range(function.getBody().front().getOps<ObserveOp>())) {
    ShardingAttr sharding = shardingOf(AnalyzedFunction::tensorOf(op.getValue()));
    auto type = dyn_cast<RankedTensorType>(op.getValue().getType());
    if (!sharding)
      continue;
    if (!type || sharding.getDim() >= type.getRank()) {
      op.erase();
      continue;
    }
    op.setShardAttr(sharding);
    op.setWhole(type);
  }
}

void Partitioner::run() {
  planCalls();
  noteShards();
  struct Move {
    ReshardOp op;
    ShardingAttr from, to;
  };
  std::vector<Move> moves;
  for (auto op : function.getBody().front().getOps<ReshardOp>())
    moves.push_back({op, shardingOf(AnalyzedFunction::tensorOf(op.getValue())), shardingOf(TensorRef{op})});
  for (const AnalyzedCall &call : analyzed.getCalls())
    if (isRandom(call.op))
      shareDraws(call.op);
  for (const SplitCall &planned : calls)
    partitionCall(planned);
  for (auto &[op, from, to] : moves)
    partitionReshard(op, from, to);
  for (Operation &op : function.getBody().front()) {
    if (auto param = dyn_cast<ParamOp>(op))
      partitionParam(param);
    else if (op.hasAttr(kShardingsAttr))
      for (OpResult result : op.getResults())
        if (isTensorLike(result.getType()))
          result.setType(UnknownTensorType::get(op.getContext()));
    op.removeAttr(kShardingsAttr);
  }
  auto results = function.getBody().front().getTerminator()->getOperandTypes();
  function.setType(builder.getFunctionType(function.getArgumentTypes(), results));
}

namespace {
struct PartitionSpmd : impl::PartitionSpmdBase<PartitionSpmd> {
  void getDependentDialects(DialectRegistry &registry) const override { registerOperatorDialects(registry); }

  void runOnOperation() override {
    if (failed(checkShardings(getOperation())))
      return signalPassFailure();
    unsigned ranks = tensorParallelSizeOf(getOperation());
    if (ranks > 1)
      Partitioner(getOperation(), ranks).run();
  }
};
} // namespace

} // namespace cleave
