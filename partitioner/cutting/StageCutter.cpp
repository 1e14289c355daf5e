//===- StageCutter.cpp - Cutting a DAG into pipeline stages ---------------===//
#include "partitioner/cutting/StageCutter.h"

#include "partitioner/cutting/LinearPlacement.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

using llvm::Error;

namespace cleave {

static constexpr double kNever = std::numeric_limits<double>::infinity();
static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
/// Shares of a balanced stage that a merged group may take, from one search to the next.
static constexpr double kCoarseShares[] = {1.0 / 2, 1.0 / 8, 1.0 / 32, 1.0 / 128};

double StageCut::slowest() const { return *std::max_element(seconds.begin(), seconds.end()); }

double StageCut::mean() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

/// Ends of the segments of program order that no stage crosses: at fixed starts, and at the end.
static std::vector<uint32_t> segmentEnds(const StageGraph &graph, const CutRequest &request) {
  std::vector<uint32_t> ends;
  for (uint32_t start : request.stageStarts) {
    assert(start < graph.nodes.size() && start >= (ends.empty() ? 0 : ends.back()) && "nodes, ascending");
    if (start > 0)
      ends.push_back(start);
  }
  ends.push_back(graph.nodes.size());
  return ends;
}

static std::vector<uint32_t> numbersBelow(uint32_t count) {
  std::vector<uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// All nodes of a segment precede the first node of the next one, which precedes all other nodes there.
static void addSegments(llvm::ArrayRef<uint32_t> ends, GroupGraph &graph) {
  uint32_t start = 0;
  for (auto [segment, end] : llvm::enumerate(ends)) {
    for (uint32_t node = start; node < end; ++node) {
      graph.groups[node].segment = segment;
      if (end < graph.groups.size())
        graph.successors[node].push_back(end);
      if (start > 0 && node > start)
        graph.successors[start].push_back(node);
    }
    start = end;
  }
}

/// One group per node, in program order; values and weights are nets.
static GroupGraph groupsOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> segmentEnds) {
  GroupGraph result;
  result.successors.resize(graph.nodes.size());
  for (int64_t bytes : graph.weightBytes)
    result.nets.push_back({/*cost=*/0, double(bytes), {}});
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    assert(graph.nodes[node].minSeconds() >= 0 && "costs grow with the stage");
    result.groups.push_back({graph.nodes[node].seconds});
    result.groups.back().otherLatencies = graph.nodes[node].onOtherKinds;
    for (uint32_t weight : graph.nodes[node].weights)
      result.nets[weight].groups.push_back(node);
  }
  for (const StageGraph::Value &value : graph.values) {
    assert(value.bytes >= 0 && "a value has a size");
    GroupGraph::Net &net = result.nets.emplace_back(double(value.bytes), /*size=*/0, value.consumers);
    net.groups.push_back(value.producer);
    for (uint32_t consumer : value.consumers) {
      assert(consumer > value.producer && "nodes are numbered in a topological order");
      result.successors[value.producer].push_back(consumer);
    }
  }
  addSegments(segmentEnds, result);
  return mergeGroups(result, numbersBelow(graph.nodes.size()));
}

static DeviceRow rowOf(const CutRequest &request) {
  DeviceRow row;
  row.isPipeline = true;
  for (const StageDevice &stage : request.stages) {
    assert(stage.link.bytesPerSecond > 0 && stage.link.latencySeconds >= 0 && "no device");
    row.accelerators.push_back({stage.weightLimit ? double(*stage.weightLimit) : kNever,
                                1 / stage.link.bytesPerSecond, /*perSent=*/0, stage.link.latencySeconds,
                                stage.kind});
  }
  return row;
}

/// Trees of groups: each group has only its parent as predecessor (successor if not `isForward`), and a tree
/// takes at most `most` in total. All edges into a tree go to its root, so the order of the roots is
/// topological.
static std::vector<uint32_t> treesOf(const GroupGraph &graph, double most, bool isForward) {
  const uint32_t groups = graph.groups.size();
  std::vector<uint32_t> treeOf(groups);
  std::vector<double> seconds;
  for (uint32_t index = 0; index < groups; ++index) {
    const uint32_t group = isForward ? index : groups - 1 - index;
    const GroupGraph::Group &own = graph.groups[group];
    const std::vector<uint32_t> &next = (isForward ? graph.predecessors : graph.successors)[group];
    const bool joins = next.size() == 1 && graph.groups[next[0]].segment == own.segment &&
                       seconds[treeOf[next[0]]] + own.acceleratorLatency <= most;
    if (!joins)
      seconds.push_back(0);
    treeOf[group] = joins ? treeOf[next[0]] : seconds.size() - 1;
    seconds[treeOf[group]] += own.acceleratorLatency;
  }
  if (!isForward)
    for (uint32_t &tree : treeOf)
      tree = seconds.size() - 1 - tree;
  return treeOf;
}

/// Merges trees repeatedly until nothing more joins.
static GroupGraph coarsen(const GroupGraph &graph, double most) {
  GroupGraph coarse = graph;
  for (size_t before = SIZE_MAX; coarse.groups.size() < before;) {
    before = coarse.groups.size();
    for (bool isForward : {true, false}) {
      const std::vector<uint32_t> treeOf = treesOf(coarse, most, isForward);
      for (uint32_t &group : coarse.groupOf)
        group = treeOf[group];
      coarse = mergeGroups(graph, coarse.groupOf);
    }
  }
  return coarse;
}

/// The best cut that beats `linear`, program order's best. Searches merged graphs first, then the whole
/// graph; each result bounds the next search.
static SearchOutcome searchBelow(const std::optional<DeviceAssignment> &linear, const GroupGraph &graph,
                                 const DeviceRow &devices, double lowerBound, const SearchLimits &limits) {
  uint64_t work = limits.work;
  double bound = linear ? linear->maxLoad / kRoundingFactor : kNever;
  SearchOutcome best;
  auto refine = [&](const GroupGraph &next) {
    SearchOutcome outcome = searchAll(next, devices, bound, limits.downsets, work);
    best.end = outcome.end;
    if (outcome.downsets > 0)
      best.downsets = outcome.downsets;
    if (!outcome.found)
      return;
    bound = std::nextafter(outcome.found->maxLoad * kRoundingFactor, kNever);
    best.found.emplace();
    for (uint32_t group : next.groupOf)
      best.found->deviceOf.push_back(outcome.found->deviceOf[group]);
  };
  // A graph with too many downsets has too many if less is merged.
  for (double share : kCoarseShares)
    if (best.end == SearchEnd::Complete)
      refine(coarsen(graph, lowerBound * share));
  if (best.end == SearchEnd::Complete)
    refine(graph);
  return best;
}

StageCut describeCut(const StageGraph &graph, const CutRequest &request, std::vector<uint32_t> stageOf) {
  const size_t stages = request.stages.size();
  StageCut cut;
  cut.stageOf = std::move(stageOf);
  cut.seconds.resize(stages);
  cut.weightBytes.resize(stages);
  cut.recvBytes.resize(stages);
  std::vector<std::set<uint32_t>> held(stages);
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const uint32_t stage = cut.stageOf[node];
    cut.seconds[stage] += graph.nodes[node].secondsOn(request.stages[stage].kind);
    for (uint32_t weight : graph.nodes[node].weights)
      if (held[stage].insert(weight).second)
        cut.weightBytes[stage] += graph.weightBytes[weight];
  }
  for (const StageGraph::Value &value : graph.values) {
    std::set<uint32_t> receivers;
    for (uint32_t consumer : value.consumers)
      if (cut.stageOf[consumer] != cut.stageOf[value.producer] &&
          receivers.insert(cut.stageOf[consumer]).second)
        cut.recvBytes[cut.stageOf[consumer]] += value.bytes;
  }
  for (size_t stage = 0; stage < stages; ++stage) {
    const StageDevice &device = request.stages[stage];
    if (cut.recvBytes[stage] > 0)
      cut.seconds[stage] += device.link.latencySeconds + cut.recvBytes[stage] / device.link.bytesPerSecond;
  }
  return cut;
}

/// Bytes of the distinct weights that the node reads.
static int64_t weightBytesOf(const StageGraph &graph, const StageGraph::Node &node) {
  int64_t bytes = 0;
  for (uint32_t weight : std::set<uint32_t>(node.weights.begin(), node.weights.end()))
    bytes += graph.weightBytes[weight];
  return bytes;
}

/// End of the longest interval of program order from `start` to at most `end` with at most `limit` bytes of
/// weights.
static uint32_t fill(const StageGraph &graph, uint32_t start, uint32_t end, int64_t limit) {
  std::set<uint32_t> held;
  int64_t bytes = 0;
  for (uint32_t node = start; node < end; ++node) {
    for (uint32_t weight : graph.nodes[node].weights)
      if (held.insert(weight).second)
        bytes += graph.weightBytes[weight];
    if (bytes > limit)
      return node;
  }
  return end;
}

/// The smallest number of stages along program order that keep to its segments and hold at most `limit` bytes
/// of weights each; nothing if one node exceeds that. Greedy filling is optimal, since part of a stage holds
/// no more than the whole; so any larger number of stages, up to one per node, is possible, too.
static std::optional<uint32_t> fewestStages(const StageGraph &graph, llvm::ArrayRef<uint32_t> segmentEnds,
                                            int64_t limit) {
  uint32_t count = 0, start = 0;
  for (uint32_t end : segmentEnds)
    for (; start < end; ++count) {
      const uint32_t next = fill(graph, start, end, limit);
      if (next == start)
        return std::nullopt;
      start = next;
    }
  return count;
}

/// By node: end of the longest interval of program order from it within its segment with at most `limit`
/// bytes of weights.
static std::vector<uint32_t> furthestEnds(const StageGraph &graph, llvm::ArrayRef<uint32_t> segmentEnds,
                                          int64_t limit) {
  std::vector<uint32_t> furthest, users(graph.weightBytes.size());
  int64_t bytes = 0;
  uint32_t end = 0;
  for (uint32_t start = 0, segment = 0; start < graph.nodes.size(); ++start) {
    while (start >= segmentEnds[segment])
      ++segment;
    for (; end < segmentEnds[segment]; ++end) {
      int64_t more = 0;
      for (uint32_t weight : graph.nodes[end].weights)
        more += users[weight]++ == 0 ? graph.weightBytes[weight] : 0;
      bytes += more;
      if (bytes <= limit)
        continue;
      for (uint32_t weight : graph.nodes[end].weights)
        --users[weight];
      bytes -= more;
      break;
    }
    furthest.push_back(end);
    // The next interval begins after this node.
    end = std::max(end, start + 1);
    for (uint32_t weight : graph.nodes[start].weights)
      if (furthest.back() > start)
        bytes -= --users[weight] == 0 ? graph.weightBytes[weight] : 0;
  }
  return furthest;
}

/// True if stages along program order fit when each may hold the larger of its device's memory and `limit`
/// bytes.
static bool fitsProgramOrder(const StageGraph &graph, llvm::ArrayRef<uint32_t> segmentEnds,
                             const CutRequest &request, int64_t limit) {
  auto roomOf = [&](const StageDevice &stage) {
    return std::max(stage.weightLimit.value_or(kNoLimit), limit);
  };
  const int64_t first = roomOf(request.stages.front());
  if (llvm::all_of(request.stages, [&](const StageDevice &stage) { return roomOf(stage) == first; })) {
    const std::optional<uint32_t> fewest = fewestStages(graph, segmentEnds, first);
    return fewest && *fewest <= request.stages.size();
  }
  const uint32_t nodes = graph.nodes.size();
  std::map<int64_t, std::vector<uint32_t>> furthestWithin;
  // Nodes at which the stages so far may end.
  std::vector<bool> isEnd(nodes + 1);
  isEnd[0] = true;
  for (const StageDevice &stage : request.stages) {
    auto [furthest, isNew] = furthestWithin.try_emplace(roomOf(stage));
    if (isNew)
      furthest->second = furthestEnds(graph, segmentEnds, furthest->first);
    std::vector<bool> next(nodes + 1);
    for (uint32_t start = 0, done = 0; start < nodes; ++start)
      for (uint32_t end = std::max(start, done) + 1; isEnd[start] && end <= furthest->second[start]; ++end) {
        next[end] = true;
        done = end;
      }
    isEnd = std::move(next);
  }
  return isEnd[nodes];
}

/// The smallest limit that stages along program order can meet, including the fixed starts. With
/// heterogeneous devices, those that have more memory keep it.
static int64_t leastWeightLimit(const StageGraph &graph, llvm::ArrayRef<uint32_t> segmentEnds,
                                const CutRequest &request) {
  int64_t low = 0, high = std::accumulate(graph.weightBytes.begin(), graph.weightBytes.end(), int64_t(0));
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (fitsProgramOrder(graph, segmentEnds, request, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Text of the smallest and the largest limit of the stages.
static std::string describeHeterogeneousLimits(const CutRequest &request) {
  auto limitOf = [](const StageDevice &stage) { return stage.weightLimit.value_or(kNoLimit); };
  auto isLess = [&](const StageDevice &a, const StageDevice &b) { return limitOf(a) < limitOf(b); };
  const auto least = llvm::min_element(request.stages, isLess),
             most = llvm::max_element(request.stages, isLess);
  return llvm::formatv("at most {0} bytes of weights in stage {1}, which may hold least, {2} in stage {3}, "
                       "which may hold most",
                       limitOf(*least), least - request.stages.begin(),
                       limitOf(*most) == kNoLimit ? "any number" : std::to_string(limitOf(*most)),
                       most - request.stages.begin());
}

static Error tooHeavy(const StageGraph &graph, const CutRequest &request,
                      llvm::ArrayRef<uint32_t> segmentEnds, bool isProven) {
  const uint32_t stages = request.stages.size();
  const int64_t least = leastWeightLimit(graph, segmentEnds, request);
  std::set<int64_t> limits;
  for (const StageDevice &stage : request.stages)
    limits.insert(stage.weightLimit.value_or(kNoLimit));
  const int64_t most = *limits.rbegin();
  for (const StageGraph::Node &node : graph.nodes)
    if (const int64_t bytes = weightBytesOf(graph, node); bytes > most)
      return makeError(
          "{0}: reads {1} bytes of weights, a stage may hold {2}; use devices with memory for {3} "
          "bytes of weights",
          node.label, bytes, most, least);
  const char *tried = isProven ? "" : " that was tried";
  if (limits.size() > 1)
    return makeError(
        "stage cut: no cut into {0} stages{1} holds {2}; use devices with memory for {3} bytes of "
        "weights where they have less",
        stages, tried, describeHeterogeneousLimits(request), least);
  return makeError(
      "stage cut: no cut into {0} stage{1}{2} holds at most {3} bytes of weights each; use --mesh pp={4} or "
      "more, or devices with memory for {5} bytes of weights",
      stages, stages == 1 ? "" : "s", tried, most, *fewestStages(graph, segmentEnds, most), least);
}

/// Text of the number of stages for which there are enough nodes.
static std::string describeFewerStages(size_t nodes, const CutRequest &request) {
  const size_t ofRank = request.stagesPerRank, ranks = request.stages.size() / ofRank;
  const size_t mostOfRank = ofRank > 1 ? nodes / ranks : 0, mostRanks = nodes / ofRank;
  if (mostOfRank > 1)
    return llvm::formatv("--interleave {0}{1}", mostOfRank, mostOfRank == 2 ? "" : " or less");
  if (mostOfRank == 1)
    return "--schedule gpipe without --interleave";
  if (mostRanks == 0)
    return llvm::formatv("--mesh pp={0} and --schedule gpipe without --interleave", nodes);
  return llvm::formatv("--mesh pp={0}{1}", mostRanks, mostRanks == 1 ? "" : " or fewer");
}

static Error check(size_t nodes, size_t segments, const CutRequest &request) {
  const size_t stages = request.stages.size();
  if (stages == 0 || nodes == 0)
    return makeError("stage cut: {0} operators and {1} stages, at least one of each is needed; {2}", nodes,
                     stages,
                     nodes == 0 ? "a model without operators needs no plan" : "use --mesh pp=1 or more");
  if (nodes < stages)
    return makeError("stage cut: {0} operator{1} not fill {2} stages; use {3}", nodes,
                     nodes == 1 ? " does" : "s do", stages, describeFewerStages(nodes, request));
  if (segments > stages)
    return makeError("stage cut: the --stage-before options make {0} stages, {1} were asked for; use --mesh "
                     "pp={0} or more, "
                     "or fewer --stage-before",
                     segments, stages);
  return Error::success();
}

/// A node that alone takes longer than a balanced stage, on whatever device.
static std::optional<uint32_t> bottleneckOf(const GroupGraph &nodes, const DeviceRow &devices) {
  const NormalizedWork normalizedWork(nodes);
  std::set<uint32_t> kinds;
  for (const DeviceRow::Accelerator &device : devices.accelerators)
    kinds.insert(device.kind);
  double work = 0, longest = -1;
  uint32_t bottleneck = 0;
  for (auto [node, group] : llvm::enumerate(nodes.groups)) {
    work += normalizedWork.of(group);
    double least = kNever;
    for (uint32_t kind : kinds)
      least = std::min(least, group.latencyOn(kind));
    if (least > longest) {
      longest = least;
      bottleneck = node;
    }
  }
  if (longest <= work / normalizedWork.rateFrom(devices, 0) * kRoundingFactor)
    return std::nullopt;
  return bottleneck;
}

/// The best cut along program order. If that has too many states, neighbours are merged until it has not.
static std::optional<DeviceAssignment> searchProgramOrder(const GroupGraph &graph, const DeviceRow &devices,
                                                          double lowerBound) {
  // Twice as many groups as stages leave a block to each.
  const uint64_t groups = graph.groups.size(),
                 most = std::max<uint64_t>(kMaxSearchStates / devices.statesOf(1),
                                           2 * devices.accelerators.size());
  const uint64_t together = (groups + most - 1) / most;
  std::vector<uint32_t> blockOf;
  for (uint32_t group = 0, inBlock = 0; group < groups; ++group) {
    const bool begins =
        group == 0 || inBlock == together || graph.groups[group].segment != graph.groups[group - 1].segment;
    blockOf.push_back(group == 0 ? 0 : blockOf.back() + begins);
    inBlock = begins ? 1 : inBlock + 1;
  }
  const GroupGraph blocks = mergeGroups(graph, blockOf);
  uint64_t asLongAsItTakes = std::numeric_limits<uint64_t>::max();
  auto found =
      searchAlong(numbersBelow(blocks.groups.size()), blocks, devices, lowerBound, kNever, asLongAsItTakes);
  if (!found)
    return std::nullopt;
  for (uint32_t &block : blockOf)
    block = found->deviceOf[block];
  found->deviceOf = std::move(blockOf);
  return found;
}

llvm::Expected<StageCut> cutStages(const StageGraph &graph, const CutRequest &request) {
  const std::vector<uint32_t> ends = segmentEnds(graph, request);
  if (Error error = check(graph.nodes.size(), ends.size(), request))
    return error;
  const GroupGraph groups = groupsOf(graph, ends);
  LimitRange weightLimitRange;
  DeviceRow devices = rowOf(request);
  devices.seen = &weightLimitRange;
  const double lowerBound = lowerBoundOf(groups, devices);
  if (lowerBound == kNever)
    return tooHeavy(graph, request, ends, /*isProven=*/true);
  for (const GroupGraph::Group &group : groups.groups)
    weightLimitRange.note(int64_t(std::min(group.size, 0x1p62)), /*fits=*/true);
  std::optional<DeviceAssignment> found;
  if (fitsProgramOrder(graph, ends, request, /*limit=*/0))
    found = searchProgramOrder(groups, devices, lowerBound);
  SearchOutcome other;
  const bool isBest = found && found->maxLoad <= lowerBound * kRoundingFactor;
  if (!isBest)
    other = searchBelow(found, groups, devices, lowerBound, request.limits);
  if (other.found)
    found = std::move(other.found);
  if (!found)
    return tooHeavy(graph, request, ends, other.end == SearchEnd::Complete);
  StageCut cut = describeCut(graph, request, std::move(found->deviceOf));
  cut.end = other.end;
  cut.downsets = other.downsets;
  cut.isExact = other.end == SearchEnd::Complete || cut.slowest() <= lowerBound * kRoundingFactor;
  // The mean is summed in another order than the stages, and may exceed them by rounding.
  cut.lowerBound = cut.isExact ? cut.slowest() : std::min(lowerBound, cut.slowest());
  cut.bottleneck = bottleneckOf(groups, devices);
  cut.weightLimitRange = weightLimitRange;
  return cut;
}

} // namespace cleave
