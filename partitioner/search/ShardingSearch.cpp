//===- ShardingSearch.cpp - Search for the dimensions to shard ------------===//
#include "partitioner/search/ShardingSearch.h"
#include "ir/UsedValues.h"
#include "ir/autograd/ForwardPart.h"
#include "partitioner/cost/ModelGraph.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/GlobPattern.h"
#include <cmath>
#include <queue>

using namespace mlir;

namespace cleave {

namespace {
class Search {
public:
  Search(func::FuncOp function, const ShardingRequest &request)
      : function(function), analyzed(function), shapes(function), request(request), ranks(request.ranks),
        forward(forwardOperations(function)), shardings(analyzed, ranks),
        communication(analyzed, ranks, request.group.collectives), bound(analyzed, communication) {
    findWeights();
    applyConstraints();
    findClasses();
    undecided = decision;
  }
  /// \param dearest  limit of the price of sharding a byte: seconds of communication minus seconds saved.
  ShardingDecision run(double dearest);
  double secondsLowerBound(const ShardingDecision &decision) const;

private:
  struct Candidate {
    ShardingSeed seed;
    ShardingGroup found;
    double seconds;
  };
  struct Use {
    const AnalyzedCall *call;
    unsigned operand;
  };

  void findWeights();
  void collectWeights(Use use, Value value, llvm::SmallPtrSetImpl<Operation *> &seen);
  void applyConstraints();
  void findClasses();
  void takeClasses();
  void takeRest();
  /// Seconds of communication minus seconds saved.
  double costOf(const Candidate &candidate) const;
  bool isTooDear(const Candidate &candidate);
  bool isAskedFor(const ShardingGroup &found) const;
  int64_t rankBytes() const;
  bool isWorthIt(const Candidate &candidate) const;
  /// costOf per byte sharded.
  double priceOf(const Candidate &candidate) const;
  ShardingStyle styleOf(ParamOp weight, const ShardingGroup &found) const;
  int64_t gainOf(const ShardingGroup &found) const;
  bool isAllowed(const ShardingGroup &found) const;
  const Candidate *candidateOf(ShardingSeed seed);
  std::shared_ptr<const Candidate> find(ShardingSeed seed);
  void take(const Candidate &candidate);
  /// Index of a weight that is to be sharded and is not yet.
  std::optional<size_t> openWeight(TensorRef tensor) const;

  func::FuncOp function;
  AnalyzedFunction analyzed;
  ExampleShapes shapes;
  const ShardingRequest &request;
  const unsigned ranks;
  /// Styles are those of the forward pass.
  const llvm::DenseSet<Operation *> forward;
  Shardings shardings;
  CommunicationCosts communication;
  CommunicationBound bound;
  /// All sharding groups, before any is taken.
  std::vector<Candidate> classes;
  /// Candidates since the last one was taken, by the dimension of their seed; null if not allowed. A group is
  /// the same whichever of its tensors is the seed, unless it is cut.
  llvm::DenseMap<std::pair<Value, unsigned>, std::shared_ptr<const Candidate>> left;
  /// The last candidate of each seed, null if not allowed, with the answers that it depends on.
  struct Found {
    Shardings::Dependencies dependencies;
    std::shared_ptr<const Candidate> candidate;
  };
  llvm::DenseMap<std::pair<Value, unsigned>, Found> lastFound;
  /// Labels that `lastFound` may still hold, since groups of long dimensions have many.
  size_t labelsLeft = size_t(1) << 25;
  static std::pair<Value, unsigned> keyOf(Value weight, unsigned dim, bool weightOnly = false) {
    return {weight, 2 * dim + weightOnly};
  }
  double dearest = 0;
  /// The decision before each run.
  ShardingDecision undecided;
  ShardingDecision decision;
  llvm::MapVector<TensorRef, size_t> weights;
  /// By operator: its uses of a weight, or of a value made of weights.
  llvm::MapVector<Operation *, SmallVector<Use>> usesOf;
  /// Weights with a style that the user asked for.
  llvm::DenseMap<TensorRef, ShardingStyle> fixed;
};
} // namespace

/// True if the operator contracts, or looks up, rows of a weight.
static bool usesWeights(const AnalyzedCall &call) {
  const OpSemantics &semantics = semanticsOf(OperatorOp(call.op).getName());
  return semantics.isLookup ||
         (semantics.isSumOverReduceFactors &&
          llvm::count_if(call.operands, [](TensorRef tensor) { return bool(tensor.value); }) > 1);
}

/// Records the use at each weight that `value` is made of.
void Search::collectWeights(Use use, Value value, llvm::SmallPtrSetImpl<Operation *> &seen) {
  Operation *op = value.getDefiningOp();
  if (!analyzed.isMadeOfWeights(value) || !seen.insert(op).second)
    return;
  if (isa<ParamOp>(op))
    usesOf[op].push_back(use);
  for (Value operand : op->getOperands())
    collectWeights(use, operand, seen);
}

void Search::findWeights() {
  for (const AnalyzedCall &call : analyzed.getCalls())
    if (usesWeights(call))
      for (auto [index, operand] : llvm::enumerate(call.operands))
        if (llvm::SmallPtrSet<Operation *, 8> seen; operand.value)
          collectWeights({&call, unsigned(index)}, operand.value, seen);
  for (auto &[op, uses] : usesOf) {
    auto param = cast<ParamOp>(op);
    auto type = dyn_cast<RankedTensorType>(param.getType());
    // Tables of integers, such as positions, do not count as weights.
    if (!type || type.getRank() < 2 || !isa<FloatType>(type.getElementType()))
      continue;
    weights.insert({TensorRef{param}, decision.weights.size()});
    decision.weights.push_back({param});
  }
}

std::optional<size_t> Search::openWeight(TensorRef tensor) const {
  auto known = weights.find(tensor);
  if (known == weights.end() || decision.weights[known->second].seed >= 0)
    return std::nullopt;
  return known->second;
}

int64_t Search::gainOf(const ShardingGroup &found) const {
  int64_t bytes = 0;
  for (auto &[tensor, labelled] : found.tensors)
    if (openWeight(tensor))
      bytes += analyzed.bytesOf(tensor);
  return bytes;
}

double Search::priceOf(const Candidate &candidate) const {
  int64_t gain = gainOf(candidate.found);
  return gain > 0 ? candidate.seconds / gain : std::numeric_limits<double>::infinity();
}

/// True if the group shards no weight in another way than the user asked for.
bool Search::isAllowed(const ShardingGroup &found) const {
  for (auto &[tensor, labelled] : found.tensors)
    if (auto said = fixed.find(tensor); said != fixed.end())
      if (said->second == ShardingStyle::Replicate ||
          styleOf(tensor.value.getDefiningOp<ParamOp>(), found) != said->second)
        return false;
  for (TensorRef tensor : found.replicated)
    if (auto said = fixed.find(tensor); said != fixed.end() && said->second != ShardingStyle::Replicate)
      return false;
  return found.count >= int32_t(ranks);
}

static size_t countLabels(const ShardingGroup &found) {
  size_t count = 0;
  for (auto &[tensor, labelled] : found.tensors)
    count += labelled.labels.size();
  return count;
}

/// Cached results mostly stay valid when other groups are taken, and in other runs.
std::shared_ptr<const Search::Candidate> Search::find(ShardingSeed seed) {
  const auto key = keyOf(seed.weight, seed.dim, seed.weightOnly);
  if (auto last = lastFound.find(key); last != lastFound.end()) {
    if (shardings.isUnchanged(last->second.dependencies))
      return last->second.candidate;
    labelsLeft += last->second.candidate ? countLabels(last->second.candidate->found) : 0;
    lastFound.erase(last);
  }
  Found next;
  ShardingGroup found = shardings.shardingGroupOf(seed, &next.dependencies);
  const bool isUsable = isAllowed(found);
  const size_t labels = isUsable ? countLabels(found) : 0;
  if (isUsable) {
    const double seconds = communication.secondsOf(found);
    next.candidate = std::make_shared<const Candidate>(Candidate{seed, std::move(found), seconds});
  }
  auto candidate = next.candidate;
  if (labels <= labelsLeft) {
    labelsLeft -= labels;
    lastFound[key] = std::move(next);
  }
  return candidate;
}

/// The candidate of tensors not yet sharded; null if it is not allowed.
const Search::Candidate *Search::candidateOf(ShardingSeed seed) {
  auto [known, isNew] = left.try_emplace(keyOf(seed.weight, seed.dim, seed.weightOnly));
  if (!isNew)
    return known->second.get();
  auto candidate = find(seed);
  if (!candidate)
    return nullptr;
  left[keyOf(seed.weight, seed.dim, seed.weightOnly)] = candidate;
  if (!seed.weightOnly)
    for (auto &[tensor, labelled] : candidate->found.tensors)
      if (weights.contains(tensor))
        left.try_emplace(keyOf(tensor.value, labelled.dim), candidate);
  return candidate.get();
}

/// The style follows from the all-reduces that uses of the weight need.
ShardingStyle Search::styleOf(ParamOp weight, const ShardingGroup &found) const {
  ShardingStyle style = ShardingStyle::Colwise;
  for (auto [call, operand] : usesOf.lookup(weight)) {
    if (!forward.contains(call->op))
      continue;
    bool isSum = llvm::is_contained(found.partialSums, call->op->getResult(0));
    if (!isSum || !found.tensors.contains(call->operands[operand]) ||
        llvm::is_contained(found.gathers, call->uses[operand]))
      continue;
    if (semanticsOf(OperatorOp(call->op).getName()).isLookup)
      return ShardingStyle::EmbeddingRowwise;
    style = ShardingStyle::Rowwise;
  }
  return style;
}

static ShardingGroupSummary describe(const ShardingGroup &found) {
  ShardingGroupSummary group;
  group.parts = found.count;
  group.sums = found.partialSums.size();
  group.gathers = found.gathers.size() + found.reshards.size() + found.outputs.size();
  for (auto &[tensor, labelled] : found.tensors)
    if (auto param = tensor.value.getDefiningOp<ParamOp>()) {
      StringRef name = param.getName(), path = group.path;
      if (group.weights.empty())
        path = name.rsplit('.').first;
      while (!path.empty() && !(name.starts_with(path) && name.drop_front(path.size()).starts_with(".")))
        path = path.contains('.') ? path.rsplit('.').first : StringRef();
      group.path = path.str();
      group.weights.push_back(name.str());
    }
  return group;
}

void Search::take(const Candidate &candidate) {
  const int64_t gain = gainOf(candidate.found);
  ShardingGroupSummary group = describe(candidate.found);
  if (request.memoryLimit)
    group.price = costOf(candidate) / std::max<int64_t>(gain, 1);
  decision.shardedBytes += gain;
  decision.seconds += candidate.seconds;
  shardings.add(candidate.found);
  for (auto &[tensor, labelled] : candidate.found.tensors)
    if (auto index = openWeight(tensor)) {
      WeightDecision &weight = decision.weights[*index];
      weight.seed = decision.seeds.size();
      if (shardings.lookup(tensor))
        weight.style = styleOf(weight.weight, candidate.found);
    }
  for (TensorRef tensor : candidate.found.replicated)
    if (auto index = openWeight(tensor))
      decision.weights[*index].seed = decision.seeds.size();
  decision.seeds.push_back(candidate.seed);
  decision.groups.push_back(std::move(group));
  // Candidates may change after one was taken.
  left.clear();
}

/// True if the weight is `path`, or in the module `path`.
static bool matches(const llvm::GlobPattern &pattern, ParamOp weight) {
  auto matchesPath = [&](StringRef path) {
    return pattern.match(path) || pattern.match(path.rsplit('.').first);
  };
  if (matchesPath(weight.getName()))
    return true;
  return weight.getAliases() && llvm::any_of(weight.getAliases()->getAsValueRange<StringAttr>(), matchesPath);
}

void Search::applyConstraints() {
  for (const ShardingConstraint &constraint : request.constraints) {
    auto pattern = llvm::GlobPattern::create(constraint.pattern);
    bool isMatched = false;
    if (!pattern)
      llvm::consumeError(pattern.takeError());
    else
      for (auto &[tensor, index] : weights)
        if (matches(*pattern, decision.weights[index].weight)) {
          fixed[tensor] = constraint.style;
          decision.weights[index].asked = constraint.style;
          isMatched = true;
        }
    if (!isMatched)
      decision.unmatchedPatterns.push_back(constraint.pattern);
  }
}

/// Finds the sharding group of every dimension, each once.
void Search::findClasses() {
  llvm::DenseSet<std::pair<Value, unsigned>> known;
  for (auto &[tensor, index] : weights)
    for (unsigned dim = 0; dim < analyzed.typeOf(tensor).getRank(); ++dim) {
      if (known.contains({tensor.value, dim}) || analyzed.sizeOf(tensor, dim) < ranks)
        continue;
      ShardingSeed seed{decision.weights[index].weight, dim};
      ShardingGroup found = shardings.shardingGroupOf(seed);
      SmallVector<TensorRef> split;
      for (auto &[tensor, labelled] : found.tensors) {
        known.insert({tensor.value, labelled.dim});
        if (weights.contains(tensor))
          split.push_back(tensor);
      }
      bound.add(found, split);
      if (isAllowed(found)) {
        double seconds = communication.secondsOf(found);
        classes.push_back({seed, std::move(found), seconds});
      }
    }
}

/// Takes groups in ascending order of price.
void Search::takeClasses() {
  // The cheapest first, ties by order. Taking a group only raises the prices of others.
  using Offer = std::pair<double, size_t>;
  std::priority_queue<Offer, std::vector<Offer>, std::greater<Offer>> offers;
  for (auto [index, candidate] : llvm::enumerate(classes))
    offers.push({priceOf(candidate), index});
  while (!offers.empty()) {
    auto [price, index] = offers.top();
    offers.pop();
    const Candidate &candidate = classes[index];
    auto isTaken = [&](auto &entry) { return shardings.all().contains(entry.first); };
    if (std::isinf(price) || llvm::any_of(candidate.found.tensors, isTaken))
      continue;
    if (double now = priceOf(candidate); now > price)
      offers.push({now, index});
    else if (!isTooDear(candidate))
      take(candidate);
  }
}

/// True if sharding the candidate's weights pays. A table of two rows does not: it has fewer bytes than each
/// collective moves, and is a negligible part of the model.
bool Search::isWorthIt(const Candidate &candidate) const {
  constexpr double kNextToNothing = 0.005;
  int64_t all = 0;
  for (auto &[tensor, index] : weights)
    all += analyzed.bytesOf(tensor);
  const int64_t gain = gainOf(candidate.found);
  const double rate = request.group.collectives.bytesPerSecond(CollectiveKind::AllGather, double(gain));
  return gain >= kNextToNothing * all || gain >= candidate.seconds * rate || isAskedFor(candidate.found);
}

bool Search::isAskedFor(const ShardingGroup &found) const {
  return llvm::any_of(found.tensors, [&](auto &entry) { return fixed.contains(entry.first); });
}

double Search::costOf(const Candidate &candidate) const {
  llvm::DenseSet<OpOperand *> gathers(candidate.found.gathers.begin(), candidate.found.gathers.end());
  llvm::SetVector<Operation *> calls;
  for (auto &[tensor, labelled] : candidate.found.tensors)
    for (const AnalyzedCall *call : analyzed.callsTaking(tensor))
      if (llvm::none_of(call->uses, [&](OpOperand *use) { return gathers.contains(use); }))
        calls.insert(call->op);
  double saved = 0, dispatch = request.group.dispatchSeconds();
  for (Operation *call : calls)
    saved += std::max(operationSeconds(call, shapes, request.group) - frequencyOf(call) * dispatch, 0.);
  return candidate.seconds - saved * (ranks - 1) / ranks;
}

bool Search::isTooDear(const Candidate &candidate) {
  if (std::isinf(dearest) || isAskedFor(candidate.found) ||
      costOf(candidate) / std::max<int64_t>(gainOf(candidate.found), 1) <= dearest)
    return false;
  for (auto &[tensor, labelled] : candidate.found.tensors)
    if (auto index = openWeight(tensor))
      decision.weights[*index].isNotWorthSharding = true;
  return true;
}

/// Peak bytes of values alive at once. A view counts besides its base.
static int64_t mostLiveBytes(func::FuncOp function, const ExampleShapes &shapes) {
  llvm::DenseMap<Value, Operation *> lastUser;
  for (Operation &op : function.getBody().front())
    for (Value value : usedValues(&op))
      lastUser[value] = &op;
  int64_t live = 0, most = 0;
  for (Value argument : function.getArguments())
    live += shapes.bytesOf(argument);
  for (Operation &op : function.getBody().front()) {
    if (isa<ParamOp>(op))
      continue;
    for (Value result : op.getResults())
      live += lastUser.contains(result) ? shapes.bytesOf(result) : 0;
    most = std::max(most, live);
    for (Value value : usedValues(&op))
      if (lastUser.lookup(value) == &op && !value.getDefiningOp<ParamOp>())
        live -= shapes.bytesOf(value);
  }
  return most;
}

int64_t Search::rankBytes() const {
  std::vector<int64_t> held(ranks, 0);
  for (auto param : func::FuncOp(function).getOps<ParamOp>()) {
    TensorRef tensor{param};
    ShardingAttr sharding = shardings.lookup(tensor);
    const int64_t size = sharding ? analyzed.sizeOf(tensor, sharding.getDim()) : 1;
    SmallVector<int64_t> extents = sharding ? sharding.getExtents() : SmallVector<int64_t>(ranks, 1);
    for (auto [rank, extent] : llvm::enumerate(extents))
      held[rank] += analyzed.bytesOf(tensor) / size * extent;
  }
  return *llvm::max_element(held);
}

/// Shards each weight that is left, alone or with the unsharded tensors around it.
void Search::takeRest() {
  for (auto &[tensor, index] : weights) {
    if (!openWeight(tensor) || shardings.lookup(tensor))
      continue;
    const Candidate *best = nullptr;
    for (bool weightOnly : {false, true})
      for (unsigned dim = 0; dim < analyzed.typeOf(tensor).getRank(); ++dim)
        if (analyzed.sizeOf(tensor, dim) >= ranks)
          if (const Candidate *candidate = candidateOf({decision.weights[index].weight, dim, weightOnly}))
            if (!best || priceOf(*candidate) < priceOf(*best))
              best = candidate;
    if (best && isWorthIt(*best) && !isTooDear(*best))
      take(*best);
  }
}

ShardingDecision Search::run(double price) {
  dearest = price;
  decision = undecided;
  shardings.clear();
  left.clear();
  takeClasses();
  takeRest();
  decision.rankBytes = rankBytes();
  return std::move(decision);
}

double Search::secondsLowerBound(const ShardingDecision &decision) const {
  SmallVector<TensorRef> split;
  for (const WeightDecision &weight : decision.weights)
    if (weight.style != ShardingStyle::Replicate)
      split.push_back({ParamOp(weight.weight)});
  return bound.secondsLowerBound(split);
}

/// The cheapest decision that fits, by bisection of the price between sharding only what saves time and
/// sharding everything.
/// \param values  bytes of a rank besides weights.
static ShardingDecision decideWithin(int64_t limit, int64_t values, Search &search, ShardingDecision all) {
  LimitRange limits;
  std::vector<double> prices{0};
  for (const ShardingGroupSummary &group : all.groups)
    prices.push_back(std::max(group.price, 0.));
  llvm::sort(prices);
  prices.erase(llvm::unique(prices), prices.end());
  for (ArrayRef<double> open = prices; !open.empty();) {
    const size_t middle = open.size() / 2;
    ShardingDecision found = search.run(open[middle]);
    const bool fits = found.rankBytes <= limit - values;
    limits.note(found.rankBytes + values, fits);
    open = fits ? open.take_front(middle) : open.drop_front(middle + 1);
    if (fits)
      all = std::move(found);
  }
  all.rankBytes += values;
  all.memoryLimitRange = limits;
  return all;
}

ShardingDecision decideSharding(func::FuncOp function, const ShardingRequest &request) {
  Search search(function, request);
  ShardingDecision decision = search.run(std::numeric_limits<double>::infinity());
  if (request.memoryLimit) {
    const int64_t values = mostLiveBytes(function, ExampleShapes(function));
    decision = decideWithin(*request.memoryLimit, values, search, std::move(decision));
  }
  decision.secondsLowerBound = search.secondsLowerBound(decision);
  return decision;
}

} // namespace cleave
