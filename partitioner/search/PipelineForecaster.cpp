//===- PipelineForecaster.cpp - Forecast of one pipeline ------------------===//
#include "partitioner/search/PipelineForecaster.h"
#include "partitioner/cutting/CutStatistics.h"
#include "partitioner/cutting/StageStarts.h"
#include "partitioner/graph/MergedSignatures.h"
#include "partitioner/machine/MakeError.h"
#include "partitioner/sharding/LossSplit.h"

using namespace mlir;

namespace cleave {

/// The function's only result of one floating-point number; null if there is none, or several.
static Value lossOf(func::FuncOp function) {
  Value loss;
  for (Value result : function.getBody().front().getTerminator()->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getRank() || !isa<FloatType>(type.getElementType()))
      continue;
    if (loss)
      return {};
    loss = result;
  }
  return loss;
}

/// As findBatchObstacle; in training the loss may be the sum or mean of those of parts of the batch.
static std::optional<BatchObstacle> obstacleOf(func::FuncOp function, StringRef batch) {
  auto obstacle = findBatchObstacle(function, batch);
  Value loss = obstacle && function->hasAttr(kTrainingAttr) ? lossOf(function) : Value();
  if (loss && std::holds_alternative<LossSplit>(splitLoss(function, batch, loss)))
    return std::nullopt;
  return obstacle;
}

PipelineForecaster::PipelineForecaster(func::FuncOp function, const PipelineSearchRequest &request)
    : function(function), request(request), cache(request.cache ? *request.cache : ownCache),
      contents(cache.contentsOf(function)) {
  auto isSplit = [](auto &pipeline) { return pipeline.second > 1; };
  if (!request.batch.empty() && (request.microbatches != 1 || llvm::any_of(request.pipelines, isSplit)))
    for (func::FuncOp signature :
         request.signatures.empty() ? ArrayRef(function) : ArrayRef(request.signatures))
      if (!obstacle)
        obstacle = obstacleOf(signature, request.batch);
}

/// Example shapes of a micro-batch.
const ExampleShapes &PipelineForecaster::shapesOf(const Configuration &configuration) {
  const uint32_t count = configuration.microbatches * configuration.dataParallelSize;
  auto [known, isNew] = contents.microbatchShapes.try_emplace(count, contents.wholeBatch);
  if (isNew && count > 1)
    known->second = partOfBatch(function, contents.wholeBatch, request.batch, count);
  return known->second;
}

/// Why the batch cannot be split so; success if it can.
llvm::Error PipelineForecaster::findObstacle(const Configuration &configuration) const {
  if (configuration.microbatches * uint64_t(configuration.dataParallelSize) == 1)
    return llvm::Error::success();
  const char *remedy = configuration.dataParallelSize == 1 ? "--microbatches 1"
                       : configuration.microbatches == 1   ? "dp=1"
                                                           : "--microbatches 1 and dp=1";
  if (request.batch.empty())
    return makeError("no dimension of an input is named batch, so that there is nothing to split; use {0}",
                     remedy);
  if (obstacle)
    return makeError("{0}, so the batch is not split; use {1}", obstacle->describe(), remedy);
  if (const int64_t samples = contents.wholeBatch.sizes().lookup(request.batch);
      samples < configuration.dataParallelSize)
    return makeError("{0} samples, fewer than pipelines; use --mesh dp={0} or less", samples);
  return llvm::Error::success();
}

const PipelineDeviceGroups &PipelineForecaster::deviceGroupsOf(const Configuration &configuration) {
  const uint32_t ranks = configuration.pipelineParallelSize,
                 width = configuration.dataParallelSize * configuration.tensorParallelSize;
  auto known = groups.find({ranks, width});
  if (known != groups.end())
    return known->second.first;
  PipelineDeviceGroups found(request.machine, ranks, width, configuration.tensorParallelSize);
  std::vector<const DeviceGroup *> own = contents.kindsOf(found.kinds);
  return groups.try_emplace({ranks, width}, std::move(found), std::move(own)).first->second.first;
}

/// The kinds of the configuration's device groups, in their order there.
const std::vector<const DeviceGroup *> &PipelineForecaster::kindsOf(const Configuration &configuration) {
  deviceGroupsOf(configuration);
  return groups
      .at({configuration.pipelineParallelSize,
           configuration.dataParallelSize * configuration.tensorParallelSize})
      .second;
}

/// Prices on the device group of this number among the configuration's kinds.
OperationPrices &PipelineForecaster::pricesOf(const Configuration &configuration, uint32_t kind) {
  const DeviceGroup *group = kindsOf(configuration)[kind];
  const ExampleShapes &shapes = shapesOf(configuration);
  const bool isTrained = configuration.schedule.has_value();
  auto [known, isNew] =
      contents.prices.try_emplace({configuration.microbatches * configuration.dataParallelSize, isTrained,
                                   configuration.training.recompute, group},
                                  shapes, *group);
  if (isNew && isTrained)
    known->second.training.emplace(function, shapes, *group, configuration.training, contents.backwards);
  return known->second;
}

const ModelGraph &PipelineForecaster::graphOf(const Configuration &configuration) {
  return cache
      .graphOf(function, deviceGroupsOf(configuration).kinds,
               configuration.pipelineParallelSize * configuration.stagesPerRank)
      .model;
}

/// Null if only estimates exist: for training, and if no rank is limited.
const CutMemory *PipelineForecaster::memoryOf(const Configuration &configuration) {
  const MemoryBudgets budgets = deviceGroupsOf(configuration).memoryOfRanks();
  if (configuration.schedule || llvm::none_of(budgets, [](const auto &room) { return room.has_value(); }))
    return nullptr;
  return cache.memoryOf(function, request.batch, configuration.microbatches, request.machine,
                        configuration.dataParallelSize);
}

StageGraph PipelineForecaster::price(const ModelGraph &model, const Configuration &configuration) {
  SmallVector<OperationPrices *> own;
  for (uint32_t kind = 0; kind < deviceGroupsOf(configuration).kinds.size(); ++kind)
    own.push_back(&pricesOf(configuration, kind));
  auto secondsOf = [&](Operation *op, uint32_t kind) { return own[kind]->secondsOf(op); };
  auto bytesOf = [&](Value value) {
    return own[0]->training ? own[0]->training->sentBytes(value) : bytesSent(value, own[0]->shapes);
  };
  return model.pricedBy(secondsOf, bytesOf);
}

std::vector<StageDevice> PipelineForecaster::stagesOf(const Configuration &configuration) {
  std::vector<StageDevice> stages =
      deviceGroupsOf(configuration)
          .stageDevices(configuration.pipelineParallelSize * configuration.stagesPerRank);
  // Training holds more than weights; its memory is checked once it is known.
  for (StageDevice &stage : stages)
    if (configuration.schedule)
      stage.weightLimit.reset();
  return stages;
}

llvm::Expected<CutRequest> PipelineForecaster::requestFor(const ModelGraph &model,
                                                          const Configuration &configuration,
                                                          const SearchLimits &limits) {
  CutRequest cutting;
  cutting.limits = limits;
  cutting.stages = stagesOf(configuration);
  cutting.stagesPerRank = configuration.stagesPerRank;
  if (auto error = stageStartsOf(model, request.stageBefore).moveInto(cutting.stageStarts))
    return error;
  return cutting;
}

/// Lower bound of the seconds of all cuts. Some rank has at least its share of all work, with each operation
/// on its fastest device, and a micro-batch takes at least the critical path. With one stage per rank and no
/// backward pass, the other micro-batches follow at the pace of the rank with most of that path.
double PipelineForecaster::secondsLowerBound(const StageGraph &graph,
                                             const Configuration &configuration) const {
  double once = 0;
  for (const StageGraph::Node &node : graph.nodes)
    once += node.minSeconds();
  const double ranks = configuration.pipelineParallelSize, microbatches = configuration.microbatches;
  const double chain = criticalPathSeconds(graph);
  const bool isPipeline = configuration.stagesPerRank == 1 && !configuration.schedule;
  return std::max(microbatches * once / ranks,
                  isPipeline ? chain + (microbatches - 1) * chain / ranks : chain);
}

/// Adds what ranks hold besides activations, and do after the last backward pass. `own`: by rank, all its
/// stages together, since a weight of several of them is held once.
static void addTraining(PipelineForecast &result, llvm::ArrayRef<TrainingStageCost> own,
                        llvm::ArrayRef<DataParallelGroup> groups) {
  double slowest = 0;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    int64_t again = 0;
    for (size_t stage = rank; stage < result.training.size(); stage += own.size())
      again = std::max(again, result.training[stage].recomputedBytes + result.training[stage].bufferBytes);
    result.stateBytes[rank] = own[rank].stateBytes;
    result.peakBytes[rank] = own[rank].stateBytes + again + result.simulation.ranks[rank].peakBytes;
    result.seconds = std::max(
        result.seconds, groups[rank].gradientsReducedAt(result.simulation.ranks[rank], result.training));
    slowest = std::max(slowest, own[rank].update + groups[rank].allGatherSeconds(own[rank].weightBytes));
  }
  result.seconds += slowest;
}

/// By rank: its data-parallel group. Empty for inference.
std::vector<DataParallelGroup> PipelineForecaster::groupsOf(const Configuration &configuration) const {
  const uint32_t width = configuration.dataParallelSize * configuration.tensorParallelSize;
  std::vector<DataParallelGroup> groups;
  for (uint32_t rank = 0; rank < configuration.pipelineParallelSize && configuration.schedule; ++rank)
    groups.push_back(
        {configuration.dataParallelSize, configuration.zeroStage,
         dataParallelCollectivesOf(request.machine, rank * width, width, configuration.tensorParallelSize)});
  return groups;
}

/// Shared by schedules and ZeRO stages.
const PipelineForecaster::CutTrainingCosts &
PipelineForecaster::trainingOf(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                               const Configuration &configuration) {
  auto [known, isNew] = trainingCosts.try_emplace(
      {configuration.microbatches * configuration.dataParallelSize, configuration.training.recompute});
  if (!isNew)
    return known->second;
  const uint32_t ranks = configuration.pipelineParallelSize;
  auto costOf = [&](uint32_t stage, ArrayRef<Operation *> ops) {
    return pricesOf(configuration, deviceGroupsOf(configuration).ranks[stage % ranks].kind)
        .training->stage(ops);
  };
  std::vector<SmallVector<Operation *>> opsOf(ranks * configuration.stagesPerRank), opsOfRank(ranks);
  for (auto [ops, stage] : llvm::zip(model.nodes, stageOf)) {
    opsOf[stage].append(ops.begin(), ops.end());
    opsOfRank[stage % ranks].append(ops.begin(), ops.end());
  }
  for (auto [stage, ops] : llvm::enumerate(opsOf))
    known->second.stages.push_back(costOf(stage, ops));
  for (auto [rank, ops] : llvm::enumerate(opsOfRank))
    known->second.pipelineRanks.push_back(configuration.stagesPerRank > 1 ? costOf(rank, ops)
                                                                          : known->second.stages[rank]);
  return known->second;
}

llvm::Expected<PipelineForecast> PipelineForecaster::simulateCut(const ModelGraph &model,
                                                                 const StageGraph &graph,
                                                                 llvm::ArrayRef<uint32_t> stageOf,
                                                                 const Configuration &configuration) {
  const PipelineDeviceGroups &deviceGroups = deviceGroupsOf(configuration);
  const uint32_t ranks = configuration.pipelineParallelSize, stages = ranks * configuration.stagesPerRank;
  PipelineForecast result;
  PipelineCosts &costs = result.costs;
  costs.link = deviceGroups.link;
  costs.linkOverrides = deviceGroups.linkOverrides;
  costs.transfers = transfersOf(graph, stageOf, ranks);
  costs.stages.resize(stages);
  std::vector<TrainingStageCost> own;
  const std::vector<DataParallelGroup> groups = groupsOf(configuration);
  if (configuration.schedule) {
    const CutTrainingCosts &costsOfCut = trainingOf(model, stageOf, configuration);
    for (auto [group, rank] : llvm::zip(groups, costsOfCut.pipelineRanks))
      own.push_back(group.shardedCost(rank));
    for (auto [index, ofStage] : llvm::enumerate(costsOfCut.stages)) {
      const TrainingStageCost &stage =
          result.training.emplace_back(groups[index % ranks].shardedCost(ofStage));
      costs.stages[index] = {stage.forward, stage.inputGradient, stage.weightGradient, stage.savedBytes};
    }
    // As training frameworks do, on separate streams.
    costs.overlapsTransfers = true;
  } else {
    for (auto [stage, bytes] : llvm::enumerate(peakLiveBytes(graph, stageOf, stages)))
      costs.stages[stage].activationBytes = bytes;
    for (auto [node, stage] : llvm::zip(graph.nodes, stageOf))
      costs.stages[stage].forward += node.secondsOn(deviceGroups.ranks[stage % ranks].kind);
  }
  Pipeline pipeline{0, stages, ranks, configuration.microbatches};
  for (const TransferSize &transfer : costs.transfers)
    pipeline.transfers.push_back({transfer.from, transfer.to, {}, {}});
  if (!configuration.schedule)
    result.schedule = gpipe(pipeline);
  else if (auto error = makeTrainingSchedule(*configuration.schedule, pipeline).moveInto(result.schedule))
    return error;
  if (auto error = simulate(result.schedule, costs).moveInto(result.simulation))
    return error;
  result.seconds = result.simulation.seconds;
  result.stateBytes = weightsOf(graph, stageOf, ranks);
  for (auto [rank, weights] : llvm::enumerate(result.stateBytes))
    result.peakBytes.push_back(weights + result.simulation.ranks[rank].peakBytes);
  if (configuration.schedule)
    addTraining(result, own, groups);
  return result;
}

llvm::Expected<PipelineForecast> PipelineForecaster::forecast(const Estimate &estimate) {
  const Configuration &configuration = estimate.configuration;
  if (auto error = findObstacle(configuration))
    return error;
  const ModelGraph &model = graphOf(configuration);
  const StageGraph graph = price(model, configuration);
  auto cutting = requestFor(model, configuration, CutRequest().limits);
  if (!cutting)
    return cutting.takeError();
  auto found = contents.pricedCuts[keyOf(configuration)].cut(graph, *cutting);
  if (!found)
    return found.takeError();
  auto exact = simulateCut(model, graph, (*found)->stageOf, configuration);
  if (!exact || !estimate.cut)
    return exact;
  trainingCosts.clear();
  auto estimated = simulateCut(model, graph, estimate.cut->stageOf, configuration);
  if (!estimated)
    return estimated;
  // The slowest stage alone does not decide the time of a step.
  const bool hasRoom = !shortageOf(exact->peakBytes, deviceGroupsOf(configuration).memoryOfRanks());
  return hasRoom && exact->seconds <= estimated->seconds ? std::move(exact) : std::move(estimated);
}

llvm::Expected<PipelineForecast> forecastPipeline(const PipelineSearchRequest &request,
                                                  const Estimate &estimate) {
  return PipelineForecaster(estimate.function, request).forecast(estimate);
}

} // namespace cleave
