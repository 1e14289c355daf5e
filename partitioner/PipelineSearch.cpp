//===- PipelineSearch.cpp - All pipelines of one function -----------------===//
#include "partitioner/PipelineSearch.h"
#include "partitioner/BatchAnalysis.h"
#include "partitioner/Failure.h"
#include "partitioner/KnownPipelines.h"
#include "partitioner/Sharding.h"
#include "partitioner/StageAmounts.h"
#include "partitioner/StageStarts.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <tuple>

using namespace mlir;

namespace cleave {

/// As `--microbatches` takes.
static constexpr int64_t kMostMicrobatches = 65536;
/// Along program order alone: exact cuts of hundreds of operators take a second each.
static constexpr SearchLimits kCutLimits{/*downsets=*/0, /*work=*/0};

KnownPipelines::KnownPipelines() = default;
KnownPipelines::~KnownPipelines() = default;

namespace {
class PipelineSearch {
public:
  PipelineSearch(func::FuncOp function, const PipelineSearchRequest &request);
  std::vector<Estimate> run();
  llvm::Expected<PipelineForecast> forecast(const Configuration &configuration);

private:
  std::vector<uint32_t> microbatchCounts(uint32_t dataRanks) const;
  const TracedShapes &shapesOf(const Configuration &configuration);
  std::vector<Configuration> variantsOf(const Configuration &configuration) const;
  std::vector<Configuration> pipelines() const;
  void tryStages(const Configuration &configuration);
  void tryVariant(const Configuration &configuration, const ModelGraph &model,
                  std::optional<llvm::Expected<const StageCut *>> &found);
  const PipelinePlaces &placesOf(const Configuration &configuration);
  const std::vector<const Place *> &kindsOf(const Configuration &configuration);
  OperationPrices &pricesOf(const Configuration &configuration, uint32_t kind);
  const ModelGraph &graphOf(const Configuration &configuration);
  StageGraph price(const ModelGraph &model, const Configuration &configuration);
  std::vector<StageDevice> stagesOf(const Configuration &configuration);
  llvm::Expected<StageCut> cut(const ModelGraph &model, const StageGraph &graph,
                               const Configuration &configuration, const SearchLimits &limits);
  /// The model at the prices of a configuration, which is made where it is asked for.
  using Priced = llvm::function_ref<const StageGraph &()>;
  llvm::Expected<const StageCut *> programOrderCut(const ModelGraph &model, Priced graph,
                                                   const Configuration &configuration);
  const CutOutcome &outcomeOf(const StageCut &cut, const ModelGraph &model, Priced graph,
                              const Configuration &configuration);
  double leastSeconds(const StageGraph &graph, const Configuration &configuration) const;
  /// Of stages and of ranks, on one pipeline.
  struct TrainingOfCut {
    std::vector<TrainingStageCost> stages, ranks;
  };
  const TrainingOfCut &trainingOf(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf, const Configuration &configuration);
  std::vector<DataGroup> groupsOf(const Configuration &configuration) const;
  llvm::Expected<PipelineForecast> follow(const ModelGraph &model, const StageGraph &graph,
                                          llvm::ArrayRef<uint32_t> stageOf, const Configuration &configuration);
  llvm::Error refusal(const Configuration &configuration) const;
  void refuse(const Configuration &configuration, llvm::Error error);

  func::FuncOp function;
  const PipelineSearchRequest &request;
  KnownPipelines own;
  KnownPipelines::Facts &facts;
  std::optional<BatchObstacle> obstacle;
  /// By ranks of a pipeline and devices of each; what their kinds are among those of `facts`.
  std::map<std::pair<uint32_t, uint32_t>, std::pair<PipelinePlaces, std::vector<const Place *>>> places;
  /// Of the cut that is being looked at, by the number of micro-batches of all pipelines and by what is recomputed.
  std::map<std::pair<uint32_t, Recompute>, TrainingOfCut> ofCut;
  std::vector<Estimate> estimates;
  /// How many there will be, at most.
  size_t all = 0;
  bool goesOn = true;
};
} // namespace

static ConfigurationKey keyOf(const Configuration &configuration) {
  return {configuration.pipelineRanks,
          configuration.dataRanks,
          configuration.stagesOfRank,
          configuration.microbatches,
          configuration.zero,
          configuration.kind ? int(*configuration.kind) : -1,
          int(configuration.training.recompute)};
}

static KnownPipelines::Facts &factsOf(func::FuncOp function, KnownPipelines &known) {
  if (!known.facts)
    known.facts = std::make_unique<KnownPipelines::Facts>(function);
  return *known.facts;
}

PipelineSearch::PipelineSearch(func::FuncOp function, const PipelineSearchRequest &request)
    : function(function), request(request),
      facts(factsOf(function, request.known ? *request.known : own)) {
  auto isSplit = [](auto &pipeline) { return pipeline.second > 1; };
  if (!request.batch.empty() && (request.microbatches != 1 || llvm::any_of(request.pipelines, isSplit)))
    obstacle = findBatchObstacle(function, request.batch);
}

/// Of a micro-batch.
const TracedShapes &PipelineSearch::shapesOf(const Configuration &configuration) {
  const uint32_t count = configuration.microbatches * configuration.dataRanks;
  auto [known, isNew] = facts.parts.try_emplace(count, facts.whole);
  if (isNew && count > 1)
    known->second = facts.whole.resized(request.batch,
                                        llvm::divideCeil(facts.whole.sizes().lookup(request.batch), count));
  return known->second;
}

/// Of each pipeline, as many as it has samples at most.
std::vector<uint32_t> PipelineSearch::microbatchCounts(uint32_t dataRanks) const {
  const int64_t all = facts.whole.sizes().lookup(request.batch),
                samples = std::max<int64_t>(all / dataRanks, 1);
  if (request.microbatches)
    return {all ? uint32_t(std::min<int64_t>(request.microbatches, samples)) : request.microbatches};
  std::vector<uint32_t> counts{1};
  for (int64_t count = 2; count <= std::min(samples, kMostMicrobatches) && !obstacle; ++count)
    // Others leave parts of unequal size, which cost as the larger ones.
    if (samples % count == 0)
      counts.push_back(count);
  return counts;
}

/// Why the batch is not split that way; success where it is.
llvm::Error PipelineSearch::refusal(const Configuration &configuration) const {
  if (configuration.microbatches * uint64_t(configuration.dataRanks) == 1)
    return llvm::Error::success();
  const char *remedy = configuration.dataRanks == 1      ? "--microbatches 1"
                       : configuration.microbatches == 1 ? "dp=1"
                                                         : "--microbatches 1 and dp=1";
  if (request.batch.empty())
    return failure("no dimension of an input is named batch, so that there is nothing to split; use {0}",
                   remedy);
  if (obstacle)
    return failure("{0}, so the batch is not split; use {1}", obstacle->describe(), remedy);
  if (const int64_t samples = facts.whole.sizes().lookup(request.batch); samples < configuration.dataRanks)
    return failure("{0} samples, fewer than pipelines; use --mesh dp={0} or less", samples);
  return llvm::Error::success();
}

/// All schedules, recomputations and numbers of micro-batches.
std::vector<Configuration> PipelineSearch::variantsOf(const Configuration &configuration) const {
  std::vector<Configuration> variants;
  for (uint32_t count : microbatchCounts(configuration.dataRanks)) {
    Configuration variant = configuration;
    variant.microbatches = count;
    if (request.kinds.empty())
      variants.push_back(variant);
    for (TrainingKind kind : request.kinds)
      for (const TrainingOptions &training : request.training)
        // On one rank all of one stage are the same.
        if ((kind == TrainingKind::Interleaved) == (configuration.stagesOfRank > 1) &&
            (configuration.pipelineRanks > 1 || kind == request.kinds.front()))
          for (uint32_t zero : request.zero)
            // And so on one pipeline.
            if (configuration.dataRanks > 1 || zero == request.zero.front()) {
              variant.kind = kind;
              variant.training = training;
              variant.zero = zero;
              variants.push_back(variant);
            }
  }
  return variants;
}

//===- One configuration --------------------------------------------------===//

const PipelinePlaces &PipelineSearch::placesOf(const Configuration &configuration) {
  const uint32_t ranks = configuration.pipelineRanks, width = configuration.dataRanks * configuration.tensorRanks;
  auto known = places.find({ranks, width});
  if (known != places.end())
    return known->second.first;
  PipelinePlaces found(request.machine, ranks, width, configuration.tensorRanks);
  std::vector<const Place *> own;
  for (const Place &place : found.kinds) {
    auto kind = llvm::find(facts.kinds, place);
    own.push_back(kind == facts.kinds.end() ? &facts.kinds.emplace_back(place) : &*kind);
  }
  return places.try_emplace({ranks, width}, std::move(found), std::move(own)).first->second.first;
}

/// The kinds of its places, in their order there.
const std::vector<const Place *> &PipelineSearch::kindsOf(const Configuration &configuration) {
  placesOf(configuration);
  return places.at({configuration.pipelineRanks, configuration.dataRanks * configuration.tensorRanks}).second;
}

/// On the places of that number among the configuration's.
OperationPrices &PipelineSearch::pricesOf(const Configuration &configuration, uint32_t kind) {
  const Place *place = kindsOf(configuration)[kind];
  const TracedShapes &shapes = shapesOf(configuration);
  const auto recompute = configuration.kind ? std::optional(configuration.training.recompute) : std::nullopt;
  auto [known, isNew] =
      facts.prices.try_emplace({configuration.microbatches * configuration.dataRanks, recompute, place}, shapes, *place);
  if (isNew && configuration.kind)
    known->second.training.emplace(function, shapes, *place, configuration.training);
  return known->second;
}

const ModelGraph &PipelineSearch::graphOf(const Configuration &configuration) {
  const ArrayRef<Place> kinds = placesOf(configuration).kinds;
  ModelGraphs &graphs = facts.graphs.try_emplace(kindsOf(configuration), function, kinds).first->second;
  return graphs.of(configuration.pipelineRanks * configuration.stagesOfRank);
}

StageGraph PipelineSearch::price(const ModelGraph &model, const Configuration &configuration) {
  SmallVector<OperationPrices *> own;
  for (uint32_t kind = 0; kind < placesOf(configuration).kinds.size(); ++kind)
    own.push_back(&pricesOf(configuration, kind));
  auto secondsOf = [&](Operation *op, uint32_t kind) { return own[kind]->secondsOf(op); };
  auto bytesOf = [&](Value value) {
    return own[0]->training ? own[0]->training->sentBytes(value) : bytesSent(value, own[0]->shapes);
  };
  return model.pricedBy(secondsOf, bytesOf);
}

std::vector<StageDevice> PipelineSearch::stagesOf(const Configuration &configuration) {
  std::vector<StageDevice> stages =
      placesOf(configuration).stageDevices(configuration.pipelineRanks * configuration.stagesOfRank);
  // Training holds more than weights, which is looked at when it is known.
  for (StageDevice &stage : stages)
    if (configuration.kind)
      stage.weightLimit.reset();
  return stages;
}

llvm::Expected<StageCut> PipelineSearch::cut(const ModelGraph &model, const StageGraph &graph,
                                             const Configuration &configuration, const SearchLimits &limits) {
  CutRequest cutting;
  cutting.limits = limits;
  cutting.stages = stagesOf(configuration);
  if (auto error = stageStartsOf(model, request.stageBefore).moveInto(cutting.stageStarts))
    return error;
  return cutStages(graph, cutting);
}

/// No cut takes less: some rank has at least its share of all work, as if each operation were where it is fastest, and a
/// micro-batch goes along the longest chain. Where there is one stage a rank and no backward pass, the others follow it at the
/// pace of the rank that has most of the chain.
double PipelineSearch::leastSeconds(const StageGraph &graph, const Configuration &configuration) const {
  double once = 0;
  for (const StageGraph::Node &node : graph.nodes)
    once += node.leastSeconds();
  const double ranks = configuration.pipelineRanks, microbatches = configuration.microbatches;
  const double chain = longestChain(graph);
  const bool isPipeline = configuration.stagesOfRank == 1 && !configuration.kind;
  return std::max(microbatches * once / ranks, isPipeline ? chain + (microbatches - 1) * chain / ranks : chain);
}

/// What ranks hold beside activations, and do after the last backward pass. `own`: by rank, all its stages together, as
/// weights that several of them have are there once.
static void addTraining(PipelineForecast &result, llvm::ArrayRef<TrainingStageCost> own, llvm::ArrayRef<DataGroup> groups) {
  double slowest = 0;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    int64_t again = 0;
    for (size_t stage = rank; stage < result.training.size(); stage += own.size())
      again = std::max(again, result.training[stage].recomputedBytes + result.training[stage].bufferBytes);
    result.stateBytes[rank] = own[rank].stateBytes;
    result.peakBytes[rank] = own[rank].stateBytes + again + result.forecast.ranks[rank].peakBytes;
    result.seconds = std::max(result.seconds, groups[rank].whenSummed(result.forecast.ranks[rank], result.training));
    slowest = std::max(slowest, own[rank].update + groups[rank].gatherSeconds(own[rank].weightBytes));
  }
  result.seconds += slowest;
}

/// By rank: those that hold what it holds. Of inference none.
std::vector<DataGroup> PipelineSearch::groupsOf(const Configuration &configuration) const {
  const uint32_t width = configuration.dataRanks * configuration.tensorRanks;
  std::vector<DataGroup> groups;
  for (uint32_t rank = 0; rank < configuration.pipelineRanks && configuration.kind; ++rank)
    groups.push_back({configuration.dataRanks, configuration.zero,
                      collectivesOfData(request.machine, rank * width, width, configuration.tensorRanks)});
  return groups;
}

/// Schedules and stages of ZeRO share them.
const PipelineSearch::TrainingOfCut &PipelineSearch::trainingOf(const ModelGraph &model, llvm::ArrayRef<uint32_t> stageOf,
                                                                const Configuration &configuration) {
  auto [known, isNew] =
      ofCut.try_emplace({configuration.microbatches * configuration.dataRanks, configuration.training.recompute});
  if (!isNew)
    return known->second;
  const uint32_t ranks = configuration.pipelineRanks;
  auto costOf = [&](uint32_t stage, ArrayRef<Operation *> ops) {
    return pricesOf(configuration, placesOf(configuration).ranks[stage % ranks].kind).training->stage(ops);
  };
  std::vector<SmallVector<Operation *>> opsOf(ranks * configuration.stagesOfRank), opsOfRank(ranks);
  for (auto [ops, stage] : llvm::zip(model.nodes, stageOf)) {
    opsOf[stage].append(ops.begin(), ops.end());
    opsOfRank[stage % ranks].append(ops.begin(), ops.end());
  }
  for (auto [stage, ops] : llvm::enumerate(opsOf))
    known->second.stages.push_back(costOf(stage, ops));
  for (auto [rank, ops] : llvm::enumerate(opsOfRank))
    known->second.ranks.push_back(configuration.stagesOfRank > 1 ? costOf(rank, ops) : known->second.stages[rank]);
  return known->second;
}

llvm::Expected<PipelineForecast> PipelineSearch::follow(const ModelGraph &model, const StageGraph &graph,
                                                        llvm::ArrayRef<uint32_t> stageOf,
                                                        const Configuration &configuration) {
  const PipelinePlaces &places = placesOf(configuration);
  const uint32_t ranks = configuration.pipelineRanks, stages = ranks * configuration.stagesOfRank;
  PipelineForecast result;
  PipelineCosts &costs = result.costs;
  costs.link = places.link;
  costs.unlikeLinks = places.unlikeLinks;
  costs.transfers = transfersOf(graph, stageOf, ranks);
  costs.stages.resize(stages);
  std::vector<TrainingStageCost> own;
  const std::vector<DataGroup> groups = groupsOf(configuration);
  if (configuration.kind) {
    const TrainingOfCut &whole = trainingOf(model, stageOf, configuration);
    for (auto [group, rank] : llvm::zip(groups, whole.ranks))
      own.push_back(group.partOf(rank));
    for (auto [index, ofStage] : llvm::enumerate(whole.stages)) {
      const TrainingStageCost &stage = result.training.emplace_back(groups[index % ranks].partOf(ofStage));
      costs.stages[index] = {stage.forward, stage.inputGradient, stage.weightGradient, stage.savedBytes};
    }
    // As frameworks of training do it, on streams of their own.
    costs.overlapsTransfers = true;
  } else {
    for (auto [stage, bytes] : llvm::enumerate(mostAlive(graph, stageOf, stages)))
      costs.stages[stage].activationBytes = bytes;
    for (auto [node, stage] : llvm::zip(graph.nodes, stageOf))
      costs.stages[stage].forward += node.secondsOn(places.ranks[stage % ranks].kind);
  }
  Pipeline pipeline{0, stages, ranks, configuration.microbatches};
  for (const TransferSize &transfer : costs.transfers)
    pipeline.transfers.push_back({transfer.from, transfer.to, {}, {}});
  if (!configuration.kind)
    result.schedule = gpipe(pipeline);
  else if (auto error = trainingSchedule(*configuration.kind, pipeline).moveInto(result.schedule))
    return error;
  if (auto error = simulate(result.schedule, costs).moveInto(result.forecast))
    return error;
  result.seconds = result.forecast.seconds;
  result.stateBytes = weightsOf(graph, stageOf, ranks);
  for (auto [rank, weights] : llvm::enumerate(result.stateBytes))
    result.peakBytes.push_back(weights + result.forecast.ranks[rank].peakBytes);
  if (configuration.kind)
    addTraining(result, own, groups);
  return result;
}

llvm::Expected<PipelineForecast> PipelineSearch::forecast(const Configuration &configuration) {
  if (auto error = refusal(configuration))
    return error;
  const ModelGraph &model = graphOf(configuration);
  const StageGraph graph = price(model, configuration);
  auto found = cut(model, graph, configuration, CutRequest().limits);
  if (!found)
    return found.takeError();
  return follow(model, graph, found->stageOf, configuration);
}

//===- All of them --------------------------------------------------------===//

void PipelineSearch::refuse(const Configuration &configuration, llvm::Error error) {
  estimates.push_back({configuration, 0, 0, toString(std::move(error))});
}

/// The cut of all configurations that differ from one of these in micro-batches alone; of training, of those
/// that are tried with this one.
llvm::Expected<const StageCut *> PipelineSearch::programOrderCut(const ModelGraph &model, Priced graph,
                                                                 const Configuration &configuration) {
  Configuration whose = configuration;
  if (!configuration.kind)
    whose.microbatches = 1;
  std::vector<std::optional<int64_t>> limits;
  for (const StageDevice &stage : stagesOf(configuration))
    limits.push_back(stage.weightLimit);
  auto find = [&]() -> llvm::Expected<std::unique_ptr<const StageCut>> {
    auto found = this->cut(model, configuration.kind ? graph() : model.graph, configuration, kCutLimits);
    if (!found)
      return found.takeError();
    return std::make_unique<const StageCut>(std::move(*found));
  };
  if (llvm::all_equal(limits)) {
    auto &known = facts.cuts[keyOf(whose)];
    for (const auto &cut : known)
      if (cut->weightLimits.contains(limits.front()))
        return cut.get();
    auto found = find();
    return found ? known.emplace_back(std::move(*found)).get() : llvm::Expected<const StageCut *>(found.takeError());
  }
  // For which other limits such a cut is the same, it does not say.
  auto &known = facts.unlikeCuts[{keyOf(whose), limits}];
  if (!known)
    if (auto error = find().moveInto(known))
      return error;
  return known.get();
}

const CutOutcome &PipelineSearch::outcomeOf(const StageCut &cut, const ModelGraph &model, Priced graph,
                                            const Configuration &configuration) {
  auto [known, isNew] = facts.outcomes.try_emplace({keyOf(configuration), &cut});
  if (!isNew)
    return known->second;
  auto forecast = follow(model, graph(), cut.stageOf, configuration);
  if (forecast)
    known->second = {forecast->seconds, forecast->peakBytes};
  else
    known->second.failure = toString(forecast.takeError());
  return known->second;
}

void PipelineSearch::tryVariant(const Configuration &configuration, const ModelGraph &model,
                                std::optional<llvm::Expected<const StageCut *>> &found) {
  if (auto error = refusal(configuration))
    return refuse(configuration, std::move(error));
  std::optional<StageGraph> priced;
  auto graph = [&]() -> const StageGraph & {
    return priced ? *priced : priced.emplace(price(model, configuration));
  };
  auto [least, isNew] = facts.leastSeconds.try_emplace(keyOf(configuration));
  if (isNew)
    least->second = leastSeconds(graph(), configuration);
  Estimate result{configuration, least->second};
  result.isBound = request.best && result.seconds >= *request.best;
  if (result.isBound) {
    estimates.push_back(std::move(result));
    return;
  }
  if (!found)
    found.emplace(programOrderCut(model, graph, configuration));
  if (!*found)
    return refuse(configuration, failure("{0}", toString((*found).takeError())));
  const CutOutcome &outcome = outcomeOf(***found, model, graph, configuration);
  if (!outcome.failure.empty())
    return refuse(configuration, failure("{0}", outcome.failure));
  result.seconds = outcome.seconds;
  result.peakBytes = *llvm::max_element(outcome.peakBytes);
  result.shortage = shortageOf(outcome.peakBytes, placesOf(configuration).memoryOfRanks());
  if (result.shortage)
    result.obstacle = result.shortage->describe();
  else if (request.best)
    *request.best = std::min(*request.best, result.seconds);
  estimates.push_back(std::move(result));
}

/// All variants, until the search is ended.
void PipelineSearch::tryStages(const Configuration &configuration) {
  ofCut.clear();
  const ModelGraph &model = graphOf(configuration);
  // One for all, once one of them may be the best.
  std::optional<llvm::Expected<const StageCut *>> found;
  for (const Configuration &variant : variantsOf(configuration)) {
    if (!goesOn) {
      refuse(variant, failure("{0}", kNotWeighed));
      continue;
    }
    tryVariant(variant, model, found);
    if (request.goesOn)
      goesOn = request.goesOn(estimates.back(), double(estimates.size()) / all);
    // No other cuts either.
    if (found && !*found)
      return;
  }
}

std::vector<Configuration> PipelineSearch::pipelines() const {
  std::vector<Configuration> result;
  // Many ranks mostly take least, and leave less to try.
  for (auto [ranks, pipelines] : llvm::reverse(request.pipelines))
    for (uint32_t stagesOfRank : request.stagesOfRank) {
      // One rank has nobody to wait for.
      if (ranks == 1 && stagesOfRank > 1 && request.stagesOfRank.size() > 1)
        continue;
      Configuration configuration{ranks, tensorRanksOf(function)};
      configuration.dataRanks = pipelines;
      configuration.stagesOfRank = stagesOfRank;
      result.push_back(configuration);
    }
  return result;
}

std::vector<Estimate> PipelineSearch::run() {
  const std::vector<Configuration> found = pipelines();
  for (const Configuration &one : found)
    all += variantsOf(one).size();
  for (const Configuration &one : found)
    tryStages(one);
  return std::move(estimates);
}

std::vector<Estimate> searchPipelines(func::FuncOp function, const PipelineSearchRequest &request) {
  return PipelineSearch(function, request).run();
}

llvm::Expected<PipelineForecast> forecastPipeline(func::FuncOp function, const PipelineSearchRequest &request,
                                                  const Configuration &configuration) {
  return PipelineSearch(function, request).forecast(configuration);
}

} // namespace cleave
