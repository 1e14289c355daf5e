//===- StageCutter.cpp - Cutting a DAG into pipeline stages ---------------===//
#include "partitioner/StageCutter.h"

#include "partitioner/GrowingStage.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>

using llvm::Error;

namespace cleave {

/// Sums in another order differ by rounding; times this close are the same time.
static constexpr double kSameTime = 1 + 1e-9;
static constexpr double kNever = std::numeric_limits<double>::infinity();
static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

namespace {

/// One search. Suffixes of the order are solved from the shortest on: how best to cut [node, nodes) into s
/// stages, for each s. Row `node` of a table has an entry for each s in [0, stages].
class Search {
public:
  Search(const StageGraph &graph, const CutRequest &request);

  /// Fails when no cut exists.
  Error checkFeasible();
  /// The slowest stage of the best cut, if that is at most `bound`; kNever otherwise.
  double fastest(double bound);
  /// The first node of each stage, of the most even cut while no stage takes longer than `slowest`: where one node makes
  /// its stage slow, the others still share the rest. Even is the least sum of squared seconds, which charges sending
  /// too.
  std::vector<uint32_t> mostEven(double slowest);
  StageCut describe(llvm::ArrayRef<uint32_t> starts);

private:
  void forEachStageFrom(uint32_t start, double bound, llvm::function_ref<void()> visit);
  std::optional<uint32_t> fewestStages(int64_t limit);
  int64_t leastWeightLimit();
  Error tooHeavy(std::optional<uint32_t> fewest);
  Error nodeTooHeavy();

  const StageGraph &graph;
  const uint32_t nodes, stages;
  const int64_t weightLimit;
  /// Per node, how far a stage that starts there may reach: to the next fixed start.
  std::vector<uint32_t> reach;
  /// The stage under consideration; each function starts it anew.
  GrowingStage stage;
};

} // namespace

Search::Search(const StageGraph &graph, const CutRequest &request)
    : graph(graph), nodes(graph.nodes.size()), stages(request.stages),
      weightLimit(request.weightLimit.value_or(kNoLimit)), reach(nodes, nodes), stage(graph, request.link) {
  uint32_t from = 0;
  for (uint32_t start : request.stageStarts) {
    assert(start >= from && start < nodes && "stage starts are nodes, ascending");
    std::fill(reach.begin() + from, reach.begin() + start, start);
    from = start;
  }
}

/// Calls `visit` for each stage that may start at `start` and takes at most `bound`; `stage` is it during the
/// call.
void Search::forEachStageFrom(uint32_t start, double bound, llvm::function_ref<void()> visit) {
  stage.startAt(start);
  while (stage.end() < reach[start]) {
    stage.takeNext();
    if (stage.weightBytes() > weightLimit || stage.seconds() > bound)
      return;
    visit();
  }
}

double Search::fastest(double bound) {
  const size_t width = stages + 1;
  std::vector<double> slowest((nodes + 1) * width, kNever);
  slowest[nodes * width] = 0;
  for (uint32_t start = nodes; start-- > 0;) {
    double *here = &slowest[start * width];
    forEachStageFrom(start, bound, [&] {
      const double seconds = stage.seconds();
      const double *rest = &slowest[stage.end() * width];
      for (uint32_t count = 1; count <= stages; ++count)
        here[count] = std::min(here[count], std::max(seconds, rest[count - 1]));
    });
  }
  return slowest[stages];
}

std::vector<uint32_t> Search::mostEven(double slowest) {
  const size_t width = stages + 1;
  std::vector<double> squares((nodes + 1) * width, kNever);
  std::vector<uint32_t> firstEnd((nodes + 1) * width, 0);
  squares[nodes * width] = 0;
  for (uint32_t start = nodes; start-- > 0;)
    forEachStageFrom(start, slowest, [&] {
      const double own = stage.seconds() * stage.seconds();
      const double *rest = &squares[stage.end() * width];
      for (uint32_t count = 1; count <= stages; ++count) {
        // Ends come ascending, so that among equals the earliest cut stays.
        if ((own + rest[count - 1]) * kSameTime >= squares[start * width + count])
          continue;
        squares[start * width + count] = own + rest[count - 1];
        firstEnd[start * width + count] = stage.end();
      }
    });
  assert(squares[stages] < kNever && "the time was found by a cut");
  std::vector<uint32_t> starts{0};
  for (uint32_t count = stages; count > 1; --count)
    starts.push_back(firstEnd[starts.back() * width + count]);
  return starts;
}

StageCut Search::describe(llvm::ArrayRef<uint32_t> starts) {
  StageCut cut;
  cut.stageOf.reserve(nodes);
  for (uint32_t index = 0; index < starts.size(); ++index) {
    const uint32_t end = index + 1 < starts.size() ? starts[index + 1] : nodes;
    stage.startAt(starts[index]);
    while (stage.end() < end)
      stage.takeNext();
    cut.stageOf.resize(end, index);
    cut.seconds.push_back(stage.seconds());
    cut.weightBytes.push_back(stage.weightBytes());
    cut.recvBytes.push_back(stage.recvBytes());
  }
  return cut;
}

/// The fewest stages that keep to the fixed starts and hold at most `limit` bytes of weights each; nothing
/// when a node alone exceeds it. Part of a stage holds no more than the whole, so each stage may take all it
/// can; for the same reason any larger number of stages, up to one a node, is possible too.
std::optional<uint32_t> Search::fewestStages(int64_t limit) {
  uint32_t count = 0;
  for (uint32_t start = 0, end = 0; start < nodes; start = end, ++count) {
    for (stage.startAt(start); end < reach[start]; ++end) {
      stage.takeNext();
      if (stage.weightBytes() > limit)
        break;
    }
    if (end == start)
      return std::nullopt;
  }
  return count;
}

/// The least limit that `stages` stages can meet, which must be enough for the fixed starts.
int64_t Search::leastWeightLimit() {
  int64_t low = 0, high = std::accumulate(graph.weightBytes.begin(), graph.weightBytes.end(), int64_t(0));
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const std::optional<uint32_t> fewest = fewestStages(middle);
    if (fewest && *fewest <= stages)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

Error Search::nodeTooHeavy() {
  const int64_t least = leastWeightLimit();
  for (uint32_t node = 0; node < nodes; ++node) {
    stage.startAt(node);
    stage.takeNext();
    if (stage.weightBytes() > weightLimit)
      return llvm::createStringError(
          llvm::formatv(
              "{0}: reads {1} bytes of weights, a stage may hold {2}; use devices with memory for {3}",
              graph.nodes[node].label, stage.weightBytes(), weightLimit, least)
              .str());
  }
  llvm_unreachable("without such a node some number of stages would do");
}

Error Search::tooHeavy(std::optional<uint32_t> fewest) {
  if (!fewest)
    return nodeTooHeavy();
  return llvm::createStringError(
      llvm::formatv("stage cut: no cut into {0} stage{4} holds at most {1} bytes of weights each; use "
                    "--mesh pp={2} or more, or devices with memory for {3}",
                    stages, weightLimit, *fewest, leastWeightLimit(), stages == 1 ? "" : "s")
          .str());
}

Error Search::checkFeasible() {
  if (stages == 0 || nodes == 0)
    return llvm::createStringError(
        llvm::formatv("stage cut: {0} operators and {1} stages, at least one of each is needed; {2}", nodes,
                      stages,
                      nodes == 0 ? "a model without operators needs no plan" : "use --mesh pp=1 or more")
            .str());
  if (nodes < stages)
    return llvm::createStringError(
        llvm::formatv("stage cut: {0} operator{1} not fill {2} stages; use --mesh pp={0}{3}", nodes,
                      nodes == 1 ? " does" : "s do", stages, nodes == 1 ? "" : " or fewer")
            .str());
  const uint32_t fixed = *fewestStages(kNoLimit);
  if (fixed > stages)
    return llvm::createStringError(
        llvm::formatv("stage cut: the --stage-before options make {0} stages, {1} were asked for; use "
                      "--mesh pp={0} or more, or fewer --stage-before",
                      fixed, stages)
            .str());
  const std::optional<uint32_t> fewest = fewestStages(weightLimit);
  return fewest && *fewest <= stages ? Error::success() : tooHeavy(fewest);
}

double StageCut::slowest() const { return *std::max_element(seconds.begin(), seconds.end()); }

double StageCut::mean() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

/// The first of the nodes that take longest.
static uint32_t largestNode(const StageGraph &graph) {
  auto less = [](const StageGraph::Node &a, const StageGraph::Node &b) { return a.seconds < b.seconds; };
  return std::max_element(graph.nodes.begin(), graph.nodes.end(), less) - graph.nodes.begin();
}

static double totalSeconds(const StageGraph &graph) {
  double total = 0;
  for (const StageGraph::Node &node : graph.nodes)
    total += node.seconds;
  return total;
}

llvm::Expected<StageCut> cutStages(const StageGraph &graph, const CutRequest &request) {
  Search search(graph, request);
  if (Error error = search.checkFeasible())
    return error;
  const uint32_t largest = largestNode(graph);
  const double mean = totalSeconds(graph) / request.stages;
  const double lowerBound = std::max(graph.nodes[largest].seconds, mean);
  // Most graphs balance well, so stages far slower than the bound need no look; but sending may dominate.
  double fastest = kNever;
  for (double bound : {2 * lowerBound, 16 * lowerBound, kNever})
    if ((fastest = search.fastest(bound)) < kNever)
      break;
  StageCut cut = search.describe(search.mostEven(fastest * kSameTime));
  // The mean is summed in another order than the stages, and may come out above them by rounding.
  cut.lowerBound = std::min(lowerBound, cut.slowest());
  if (graph.nodes[largest].seconds > mean * kSameTime)
    cut.bottleneck = largest;
  return cut;
}

} // namespace cleave
