//===- PipelineSearch.cpp - All pipelines of one function -----------------===//
#include "partitioner/PipelineSearch.h"
#include "partitioner/BatchAnalysis.h"
#include "partitioner/Failure.h"
#include "partitioner/ModelGraph.h"
#include "partitioner/Schedules.h"
#include "partitioner/Sharding.h"
#include "partitioner/Simulator.h"
#include "partitioner/StageCutter.h"
#include "partitioner/StageStarts.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;

namespace cleave {

/// Along program order alone: exact cuts of hundreds of operators take a second each.
static constexpr SearchLimits kCutLimits{/*downsets=*/0, /*work=*/0};

namespace {
class PipelineSearch {
public:
  PipelineSearch(func::FuncOp function, const PipelineSearchRequest &request);
  std::vector<Estimate> run();

private:
  std::vector<uint32_t> microbatchCounts() const;
  void tryStages(Configuration configuration);
  llvm::Expected<StageCut> cut(const ModelGraph &model, const Configuration &configuration) const;
  double leastSeconds(const StageGraph &graph, const Configuration &configuration) const;
  llvm::Error estimate(Estimate &result, const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf) const;
  void refuse(const Configuration &configuration, llvm::Error error);

  func::FuncOp function;
  const PipelineSearchRequest &request;
  TracedShapes whole;
  std::optional<BatchObstacle> obstacle;
  /// By the number of micro-batches.
  std::map<uint32_t, TracedShapes> parts;
  std::vector<Estimate> estimates;
};
} // namespace

PipelineSearch::PipelineSearch(func::FuncOp function, const PipelineSearchRequest &request)
    : function(function), request(request), whole(function) {
  if (request.microbatches != 1)
    obstacle = findBatchObstacle(function, request.batch);
  for (uint32_t count : microbatchCounts())
    parts.try_emplace(count, count == 1 ? whole
                                        : whole.resized(request.batch, llvm::divideCeil(whole.sizes().lookup(request.batch), count)));
}

std::vector<uint32_t> PipelineSearch::microbatchCounts() const {
  if (request.microbatches)
    return {request.microbatches};
  const int64_t samples = obstacle ? 1 : whole.sizes().lookup(request.batch);
  std::vector<uint32_t> counts{1};
  for (int64_t count = 2; count <= samples; ++count)
    // Others leave parts of unequal size, which cost as the larger ones.
    if (samples % count == 0)
      counts.push_back(count);
  return counts;
}

//===- One configuration --------------------------------------------------===//

llvm::Expected<StageCut> PipelineSearch::cut(const ModelGraph &model, const Configuration &configuration) const {
  const uint32_t stages = configuration.pipelineRanks * configuration.stagesOfRank;
  CutRequest cutting;
  cutting.limits = kCutLimits;
  cutting.stages.assign(stages, {request.machine.linkAmong(configuration.pipelineRanks * configuration.tensorRanks),
                                 request.machine.devices.front().memoryBytes});
  if (auto error = stageStartsOf(model, request.stageBefore).moveInto(cutting.stageStarts))
    return error;
  return cutStages(model.graph, cutting);
}

/// The values that stages give each other, those of one rank left out.
static std::vector<TransferSize> transfersOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t ranks) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> bytes;
  for (const StageGraph::Value &value : graph.values) {
    llvm::SmallDenseSet<uint32_t> users;
    for (uint32_t consumer : value.consumers)
      if (const uint32_t from = stageOf[value.producer], to = stageOf[consumer];
          from % ranks != to % ranks && users.insert(to).second)
        bytes[{from, to}] += value.bytes;
  }
  std::vector<TransferSize> transfers;
  for (auto [ends, amount] : bytes)
    transfers.push_back({ends.first, ends.second, amount});
  return transfers;
}

/// Per stage: the most bytes of values that live at once in program order, each from its maker, or the begin of the stage,
/// to its last use, or the end.
static std::vector<int64_t> mostAlive(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t stages) {
  const uint32_t nodes = graph.nodes.size();
  std::vector<int64_t> begins(nodes), ends(nodes), live(stages), most(stages);
  for (const StageGraph::Value &value : graph.values) {
    std::map<uint32_t, uint32_t> lastUse;
    for (uint32_t consumer : value.consumers)
      lastUse[stageOf[consumer]] = std::max(lastUse[stageOf[consumer]], consumer);
    const uint32_t maker = stageOf[value.producer];
    begins[value.producer] += value.bytes;
    // What another stage uses stays until it is sent.
    if (lastUse.size() == 1 && lastUse.count(maker))
      ends[lastUse[maker]] += value.bytes;
    for (auto [stage, last] : lastUse)
      if (stage != maker) {
        live[stage] += value.bytes;
        ends[last] += value.bytes;
      }
  }
  most = live;
  for (uint32_t node = 0; node < nodes; ++node) {
    int64_t &now = live[stageOf[node]];
    now += begins[node];
    most[stageOf[node]] = std::max(most[stageOf[node]], now);
    now -= ends[node];
  }
  return most;
}

/// Per rank, the weights of its stages, each once.
static std::vector<int64_t> weightsOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t ranks) {
  std::vector<int64_t> bytes(ranks);
  llvm::DenseSet<std::pair<uint32_t, uint32_t>> held;
  for (auto [node, stage] : llvm::zip(graph.nodes, stageOf))
    for (uint32_t weight : node.weights)
      if (held.insert({stage % ranks, weight}).second)
        bytes[stage % ranks] += graph.weightBytes[weight];
  return bytes;
}

/// No cut takes less: the first micro-batch passes all stages, and some rank has at least its share of all work.
double PipelineSearch::leastSeconds(const StageGraph &graph, const Configuration &configuration) const {
  double once = 0;
  for (const StageGraph::Node &node : graph.nodes)
    once += node.seconds;
  const double share = once / configuration.pipelineRanks;
  if (configuration.stagesOfRank > 1)
    return std::max(once, configuration.microbatches * share);
  return once + (configuration.microbatches - 1) * share;
}

llvm::Error PipelineSearch::estimate(Estimate &result, const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf) const {
  const Configuration &configuration = result.configuration;
  const uint32_t ranks = configuration.pipelineRanks, stages = ranks * configuration.stagesOfRank;
  PipelineCosts costs;
  costs.link = request.machine.linkAmong(ranks * configuration.tensorRanks);
  costs.transfers = transfersOf(graph, stageOf, ranks);
  costs.stages.resize(stages);
  for (auto [stage, bytes] : llvm::enumerate(mostAlive(graph, stageOf, stages)))
    costs.stages[stage].activationBytes = bytes;
  for (auto [node, stage] : llvm::zip(graph.nodes, stageOf))
    costs.stages[stage].forward += node.seconds;
  Pipeline pipeline{0, stages, ranks, configuration.microbatches};
  for (const TransferSize &transfer : costs.transfers)
    pipeline.transfers.push_back({transfer.from, transfer.to, {}, {}});
  auto forecast = simulate(gpipe(pipeline), costs);
  if (!forecast)
    return forecast.takeError();
  result.seconds = forecast->seconds;
  for (auto [rank, weights] : llvm::enumerate(weightsOf(graph, stageOf, ranks)))
    result.peakBytes = std::max(result.peakBytes, weights + forecast->ranks[rank].peakBytes);
  if (auto room = request.machine.devices.front().memoryBytes; room && result.peakBytes > *room)
    result.obstacle = llvm::formatv("takes {0} bytes on a device that has {1}", result.peakBytes, *room);
  return llvm::Error::success();
}

void PipelineSearch::refuse(const Configuration &configuration, llvm::Error error) {
  estimates.push_back({configuration, 0, 0, toString(std::move(error))});
}

void PipelineSearch::tryStages(Configuration configuration) {
  const ModelGraph model =
      buildModelGraph(function, request.machine, configuration.pipelineRanks * configuration.stagesOfRank);
  // One for all numbers of micro-batches, once one of them may be the best.
  std::optional<llvm::Expected<StageCut>> found;
  for (auto &[count, shapes] : parts) {
    configuration.microbatches = count;
    if (obstacle && count > 1) {
      refuse(configuration, failure("{0} {1}, so the batch is not split", obstacle->op->getName(), obstacle->reason));
      continue;
    }
    const StageGraph graph = model.pricedAt(shapes, request.machine);
    Estimate result{configuration, leastSeconds(graph, configuration)};
    result.isBound = request.best && result.seconds >= *request.best;
    if (!result.isBound) {
      if (!found)
        found.emplace(cut(model, configuration));
      if (!*found)
        return refuse(configuration, found->takeError());
      if (auto error = estimate(result, graph, (*found)->stageOf)) {
        refuse(configuration, std::move(error));
        continue;
      }
      if (request.best && result.obstacle.empty())
        *request.best = std::min(*request.best, result.seconds);
    }
    estimates.push_back(std::move(result));
  }
}

std::vector<Estimate> PipelineSearch::run() {
  // Many ranks mostly take least, and leave less to try.
  for (uint32_t ranks : llvm::reverse(request.pipelineRanks))
    for (uint32_t stagesOfRank : request.stagesOfRank) {
      // One rank has nobody to wait for.
      if (ranks == 1 && stagesOfRank > 1 && request.stagesOfRank.size() > 1)
        continue;
      tryStages({ranks, tensorRanksOf(function), stagesOfRank});
    }
  return std::move(estimates);
}

std::vector<Estimate> searchPipelines(func::FuncOp function, const PipelineSearchRequest &request) {
  return PipelineSearch(function, request).run();
}

} // namespace cleave
