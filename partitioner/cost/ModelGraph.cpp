//===- ModelGraph.cpp - A function as the stage cutter's graph ------------===//
#include "partitioner/cost/ModelGraph.h"
#include "ir/OperatorDialect.h"
#include "ir/UsedValues.h"
#include "ir/semantics/OpSemantics.h"
#include "partitioner/graph/JoinedNodes.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

/// The dtype's name in machine files; empty for a dtype without tables.
static StringRef dtypeOf(OperatorOp op) {
  auto type =
      op->getNumResults() ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  Type element = type ? type.getElementType() : Type();
  return !element           ? ""
         : element.isF32()  ? "float32"
         : element.isBF16() ? "bfloat16"
         : element.isF16()  ? "float16"
                            : "";
}

double kernelSeconds(const Kernel &kernel, const DeviceSpec &device) {
  static const KernelRates none;
  const KernelRates &rates = device.rates ? *device.rates : none;
  const OpWork &work = kernel.work;
  double flopsPerSecond = device.flopsPerSecond;
  if (const auto &shape = kernel.gemm)
    if (auto table = rates.gemms.find({shape->kind, dtypeOf(kernel.op).str()}); table != rates.gemms.end()) {
      flopsPerSecond = table->second.at({shape->count, shape->rows, shape->columns, shape->depth});
      // A measured rate includes the effect of memory, if the table covers the sizes.
      if (!table->second.isConstant() &&
          table->second.covers({shape->count, shape->rows, shape->columns, shape->depth}))
        return work.flops / flopsPerSecond;
    }
  auto [dialect, rest] = OperatorOp(kernel.op).getName().split('.');
  std::string name = (dialect + "." + rest.split('.').first).str();
  if (auto table = rates.operators.find(name); table != rates.operators.end())
    return work.bytes / table->second.at({work.bytes});
  double bytesPerSecond =
      rates.otherOperators.isEmpty() ? device.memoryBytesPerSecond : rates.otherOperators.at({work.bytes});
  return std::max(work.flops / flopsPerSecond, work.bytes / bytesPerSecond);
}

double callSeconds(const Kernel &kernel, const DeviceGroup &group) {
  double most = 0;
  for (const DeviceSpec &device : group.devices)
    most = std::max(most, device.dispatchSeconds + kernelSeconds(kernel, device));
  return most;
}

/// operationSeconds of one execution.
static double secondsOnce(Operation *op, const ExampleShapes &shapes, const DeviceGroup &group) {
  auto call = dyn_cast<OperatorOp>(op);
  if (isa<BoundaryOp, ObserveOp, ReadStateOp>(op) || (call && semanticsOf(call.getName()).isScalar))
    return 0;
  double seconds = group.dispatchSeconds();
  // Control flow costs what its regions do, once; see kVjpRuns.
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      if (isa<OperatorOp>(inner) || inner.getNumRegions() > 0)
        seconds += (isa<VjpOp>(op) ? kVjpRuns : 1) * secondsOnce(&inner, shapes, group);
  if (!call)
    return seconds;
  const OpSemantics &semantics = semanticsOf(call.getName());
  if (!semantics.collective)
    return callSeconds(
        {call, workOf(op, shapes), semantics.gemm ? semantics.gemm(call, shapes) : std::nullopt}, group);
  const unsigned ranks = tensorParallelSizeOf(op->getParentOfType<func::FuncOp>());
  // In an all-to-all, a rank never has the whole tensor, neither before nor afterwards.
  const double whole = double(std::max(shapes.bytesOf(op->getOperand(0)), shapes.bytesOf(op->getResult(0)))) *
                       (*semantics.collective == CollectiveKind::AllToAll ? ranks : 1);
  return seconds + group.collectives.seconds(*semantics.collective, whole, ranks);
}

double operationSeconds(Operation *op, const ExampleShapes &shapes, const DeviceGroup &group) {
  return frequencyOf(op) * secondsOnce(op, shapes, group);
}

/// Operations that every stage repeats at no cost; not a list that is changed later.
static bool isGlue(Operation *op) {
  return (isa<ParamOp, ConstantOp, PerRankOp, FirstRankOp, SizeOp, ListOp, TupleOp, DictOp>(op) &&
          isMemoryEffectFree(op)) ||
         prepacksWeights(op);
}

/// Types that a stage can send.
static bool isSendable(Type type) {
  return isTensorLike(type) || type.isIntOrFloat() || isa<NumberType>(type);
}

/// Costs of operations at the example sizes, whatever the number of stages.
struct ModelGraphs::Costs {
  /// Costs on one kind of device group.
  struct OfKind {
    /// True if the operation's cone takes at most the limit of its function.
    bool isBelow(Operation *op, ArrayRef<double> limits) const {
      return cones.lookup(op) <= limits[signatureIndexOf(op)];
    }
    size_t countBelow(ArrayRef<double> limits) const {
      return llvm::count_if(cones, [&](auto &cone) { return isBelow(cone.first, limits); });
    }

    llvm::DenseMap<Operation *, double> seconds, cones;
    /// By function of a merged function: seconds of its operations.
    std::vector<double> totals;
  };
  /// By kind and function: limits of the seconds of a cheap cone.
  using Limits = std::vector<std::vector<double>>;
  Costs(func::FuncOp function, ArrayRef<DeviceGroup> groups);
  double coneSeconds(Operation *op, const OfKind &kind) const;

  func::FuncOp function;
  ExampleShapes shapes;
  std::vector<OfKind> kinds;
};

ModelGraphs::Costs::Costs(func::FuncOp function, ArrayRef<DeviceGroup> groups)
    : function(function), shapes(function) {
  for (const DeviceGroup &group : groups) {
    OfKind &kind = kinds.emplace_back();
    kind.totals.resize(signatureCountOf(function));
    for (Operation &op : function.getBody().front().without_terminator())
      kind.totals[signatureIndexOf(&op)] += kind.seconds[&op] = operationSeconds(&op, shapes, group);
    for (Operation &op : function.getBody().front().without_terminator())
      kind.cones[&op] = coneSeconds(&op, kind);
  }
}

namespace {
class GraphBuilder {
public:
  GraphBuilder(const ModelGraphs::Costs &costs, const ModelGraphs::Costs::Limits &limits)
      : function(costs.function), shapes(costs.shapes), costs(costs), limits(limits) {}

  ModelGraph build();

private:
  /// True if the operation is cheap on all kinds of device groups.
  bool isCheap(Operation *op) const {
    return llvm::all_of(llvm::zip(costs.kinds, limits),
                        [&](auto kind) { return std::get<0>(kind).isBelow(op, std::get<1>(kind)); });
  }
  void makeNodes();
  /// Joins nodes of different functions that use one weight, or one state.
  void joinSignatures();
  std::vector<std::pair<uint32_t, uint32_t>> sharedUses();
  std::vector<double> progressOfNodes() const;
  void connect();
  /// Collects the values of nodes or arguments behind `value`, through glue and cheap operations, and the
  /// weights.
  void sourcesOf(Value value, llvm::SetVector<Value> &sources, llvm::SetVector<uint32_t> &weights,
                 llvm::DenseSet<Value> &seen);
  uint32_t weightOf(ParamOp param);

  func::FuncOp function;
  const ExampleShapes &shapes;
  const ModelGraphs::Costs &costs;
  const ModelGraphs::Costs::Limits &limits;
  ModelGraph result;
  llvm::DenseMap<Operation *, uint32_t> nodeOf;
  llvm::StringMap<uint32_t> weightIds;
};
} // namespace

uint32_t GraphBuilder::weightOf(ParamOp param) {
  auto [entry, isNew] = weightIds.try_emplace(param.getName(), result.weightNames.size());
  if (isNew) {
    result.weightNames.push_back(param.getName().str());
    result.graph.weightBytes.push_back(shapes.bytesOf(param));
  }
  return entry->second;
}

/// Seconds of an operation's cone: all that it computes from the request's inputs. Infinite if the cone must
/// not be repeated.
double ModelGraphs::Costs::coneSeconds(Operation *op, const OfKind &kind) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (auto param = dyn_cast<ParamOp>(op))
    return shapes.bytesOf(param) <= kSmallWeightBytes ? 0 : kNever;
  // An operation without a price is not cheap.
  bool isPriced = llvm::none_of(op->getResultTypes(),
                                [](Type type) { return isTensorLike(type) && !isa<RankedTensorType>(type); });
  // A state is in one stage only.
  bool isRepeatable = isMemoryEffectFree(op) && op->getNumRegions() == 0 && isPriced && !isa<ReadStateOp>(op);
  double cone = isRepeatable ? kind.seconds.lookup(op) : kNever;
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp())
      cone += kind.cones.lookup(maker);
  return cone;
}

void GraphBuilder::makeNodes() {
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> position;
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isGlue(&op) && !isCheap(&op)) {
      position[&op] = ops.size();
      ops.push_back(&op);
    }
  // joined[i]: operation i is in one node with the operation before it, because a value that cannot be sent
  // connects their range, or because they are between a state and its update.
  std::vector<bool> joined(ops.size() + 1, false);
  auto join = [&](size_t a, size_t b) {
    std::fill(joined.begin() + std::min(a, b) + 1, joined.begin() + std::max(a, b) + 1, true);
  };
  for (Operation *op : ops) {
    for (Value value : usedValues(op)) {
      auto maker = value.getDefiningOp() ? position.find(value.getDefiningOp()) : position.end();
      if (maker != position.end() && !isSendable(value.getType()))
        join(maker->second, position[op]);
    }
    if (auto update = dyn_cast<WriteStateOp>(op))
      join(position[update.getState()], position[op]);
  }
  for (auto [i, op] : llvm::enumerate(ops)) {
    if (!joined[i] || i == 0)
      result.nodes.emplace_back();
    result.nodes.back().push_back(op);
    nodeOf[op] = result.nodes.size() - 1;
  }
}

void GraphBuilder::sourcesOf(Value value, llvm::SetVector<Value> &sources, llvm::SetVector<uint32_t> &weights,
                             llvm::DenseSet<Value> &seen) {
  Operation *maker = value.getDefiningOp();
  if (!maker || !seen.insert(value).second)
    return;
  if (auto param = dyn_cast<ParamOp>(maker)) {
    weights.insert(weightOf(param));
  } else if (nodeOf.count(maker)) {
    sources.insert(value);
  } else {
    for (Value operand : usedValues(maker))
      sourcesOf(operand, sources, weights, seen);
  }
}

int64_t bytesSent(Value value, const ExampleShapes &shapes) {
  return std::max<int64_t>(shapes.bytesOf(value), 8);
}

/// `aten.linear at lm_head`; the operator alone if it is in no module.
static std::string labelOf(Operation *op) {
  StringRef name = op->getName().getStringRef(), path = modulePath(op);
  return path.empty() ? name.str() : (name + " at " + path).str();
}

void GraphBuilder::connect() {
  llvm::MapVector<Value, StageGraph::Value> values;
  for (auto [index, ops] : llvm::enumerate(result.nodes)) {
    StageGraph::Node &node = result.graph.nodes.emplace_back();
    llvm::SetVector<Value> sources;
    llvm::SetVector<uint32_t> weights;
    llvm::DenseSet<Value> seen;
    double largest = -1;
    node.onOtherKinds.resize(costs.kinds.size() - 1);
    for (Operation *op : ops) {
      double seconds = costs.kinds.front().seconds.lookup(op);
      node.seconds += seconds;
      for (auto [sum, kind] : llvm::zip(node.onOtherKinds, llvm::drop_begin(costs.kinds)))
        sum += kind.seconds.lookup(op);
      if (seconds > largest)
        node.label = labelOf(op);
      largest = std::max(largest, seconds);
      for (Value value : usedValues(op))
        sourcesOf(value, sources, weights, seen);
    }
    node.weights.assign(weights.begin(), weights.end());
    for (Value source : sources) {
      uint32_t producer = nodeOf.lookup(source.getDefiningOp());
      if (producer == index)
        continue;
      auto &value = values[source];
      value.producer = producer;
      value.bytes = bytesSent(source, shapes);
      value.consumers.push_back(index);
    }
  }
  for (auto &[source, value] : values) {
    result.values.push_back(source);
    result.graph.values.push_back(std::move(value));
  }
}

ModelGraph GraphBuilder::build() {
  makeNodes();
  connect();
  if (signatureCountOf(function) > 1)
    joinSignatures();
  return std::move(result);
}

//===- Several functions --------------------------------------------------===//

namespace {
/// Where functions use one weight or state: by function, the nodes of each module path.
struct Uses {
  llvm::MapVector<unsigned, llvm::MapVector<StringRef, SmallVector<uint32_t>>> nodes;

  void add(Operation *op, uint32_t node) { nodes[signatureIndexOf(op)][modulePath(op)].push_back(node); }
  /// The node of the first function that has the same use, else its first one.
  uint32_t homeOf(StringRef path, size_t index) const {
    const auto &homes = nodes.front().second;
    auto same = homes.find(path);
    return same == homes.end() ? homes.front().second.front()
                               : same->second[std::min(index, same->second.size() - 1)];
  }
};
} // namespace

/// Pairs of nodes: each use of a weight in a further function, and its home.
std::vector<std::pair<uint32_t, uint32_t>> GraphBuilder::sharedUses() {
  llvm::MapVector<StringRef, Uses> all;
  for (auto [index, ops] : llvm::enumerate(result.nodes))
    for (Operation *op : ops) {
      llvm::SetVector<Value> sources;
      llvm::SetVector<uint32_t> weights;
      llvm::DenseSet<Value> seen;
      for (Value value : usedValues(op))
        sourcesOf(value, sources, weights, seen);
      for (uint32_t weight : weights)
        all[result.weightNames[weight]].add(op, index);
      if (auto state = dyn_cast<ReadStateOp>(op))
        all[stateName(state)].add(op, index);
    }
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (auto &[name, uses] : all)
    for (auto &[signature, paths] : llvm::drop_begin(uses.nodes))
      for (auto &[path, nodes] : paths)
        for (auto [index, node] : llvm::enumerate(nodes))
          pairs.push_back({uses.homeOf(path, index), node});
  return pairs;
}

/// By node: the share of its function's seconds that comes before it.
std::vector<double> GraphBuilder::progressOfNodes() const {
  std::vector<double> totals(signatureCountOf(function)), progress;
  for (auto [node, ops] : llvm::zip(result.graph.nodes, result.nodes)) {
    double &total = totals[signatureIndexOf(ops.front())];
    progress.push_back(total);
    total += node.seconds;
  }
  for (auto [before, ops] : llvm::zip(progress, result.nodes))
    if (const double total = totals[signatureIndexOf(ops.front())]; total > 0)
      before /= total;
  return progress;
}

void GraphBuilder::joinSignatures() {
  const std::vector<uint32_t> groupOf = joinNodes(result.graph, sharedUses(), progressOfNodes());
  std::vector<std::vector<Operation *>> nodes;
  for (auto [ops, group] : llvm::zip(result.nodes, groupOf)) {
    nodes.resize(std::max<size_t>(nodes.size(), group + 1));
    llvm::append_range(nodes[group], ops);
    for (Operation *op : ops)
      nodeOf[op] = group;
  }
  result = ModelGraph();
  result.nodes = std::move(nodes);
  weightIds.clear();
  connect();
}

StageGraph ModelGraph::pricedBy(llvm::function_ref<double(Operation *, uint32_t kind)> seconds,
                                llvm::function_ref<int64_t(Value)> bytes) const {
  StageGraph priced = graph;
  for (auto [node, ops] : llvm::zip(priced.nodes, nodes)) {
    node.seconds = 0;
    for (Operation *op : ops)
      node.seconds += seconds(op, 0);
    for (auto [other, sum] : llvm::enumerate(node.onOtherKinds)) {
      sum = 0;
      for (Operation *op : ops)
        sum += seconds(op, other + 1);
    }
  }
  for (auto [value, source] : llvm::zip(priced.values, values))
    value.bytes = bytes(source);
  return priced;
}

ModelGraphs::ModelGraphs(func::FuncOp function, ArrayRef<DeviceGroup> kinds)
    : costs(std::make_unique<Costs>(function, kinds)) {}
ModelGraphs::~ModelGraphs() = default;

const ModelGraph &ModelGraphs::of(uint32_t stages) {
  constexpr double kNothing = -1;
  auto graphBelow = [&](const Costs::Limits &limits) -> const ModelGraph & {
    std::vector<size_t> counts;
    for (auto [kind, limit] : llvm::zip(costs->kinds, limits))
      counts.push_back(kind.countBelow(limit));
    auto [known, isNew] = graphs.try_emplace(std::move(counts));
    if (isNew)
      known->second = GraphBuilder(*costs, limits).build();
    return known->second;
  };
  Costs::Limits limits, nothing;
  for (const Costs::OfKind &kind : costs->kinds) {
    nothing.emplace_back(kind.totals.size(), kNothing);
    std::vector<double> &own = limits.emplace_back();
    for (double total : kind.totals)
      own.push_back(total / stages / 100);
  }
  const ModelGraph &graph = graphBelow(limits);
  // A model of cheap operations only still needs nodes.
  return graph.nodes.size() < stages ? graphBelow(nothing) : graph;
}

ModelGraph buildModelGraph(func::FuncOp function, ArrayRef<DeviceGroup> kinds, uint32_t stages) {
  return ModelGraphs(function, kinds).of(stages);
}

} // namespace cleave
