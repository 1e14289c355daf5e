//===- PipelineSearch.cpp - Search for the best pipeline ------------------===//
#include "partitioner/search/PipelineSearch.h"
#include "partitioner/machine/MakeError.h"
#include "partitioner/search/PipelineForecaster.h"
#include "partitioner/sharding/Sharding.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace cleave {

/// The limit of `--microbatches`.
static constexpr int64_t kMaxMicrobatches = 65536;

namespace {
class PipelineSearch : PipelineForecaster {
public:
  using PipelineForecaster::PipelineForecaster;
  std::vector<Estimate> run();

private:
  std::vector<uint32_t> microbatchCounts(uint32_t dataParallelSize) const;
  std::vector<Configuration> variantsOf(const Configuration &configuration) const;
  std::vector<Configuration> pipelines() const;
  void tryStages(const Configuration &configuration);
  /// A cut, or why there is none.
  struct FoundCut {
    const StageCut *cut = nullptr;
    std::string obstacle;
    /// True if a cut would exist with more memory; nothing: not known yet.
    std::optional<bool> isForMemory;
  };
  void tryVariant(const Configuration &configuration, const ModelGraph &model,
                  std::optional<FoundCut> &found);
  /// Makes the model at the prices of a configuration on request.
  using Priced = llvm::function_ref<const StageGraph &()>;
  llvm::Expected<const StageCut *> programOrderCut(const ModelGraph &model, Priced graph,
                                                   const Configuration &configuration);
  const CutOutcome &outcomeOf(const StageCut &cut, const ModelGraph &model, Priced graph,
                              const Configuration &configuration);
  CutOutcome outcomeOf(const ModelGraph &model, const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                       const Configuration &configuration);
  std::vector<int64_t> plannedBytes(const CutMemory &memory, const ModelGraph &model, const StageCut &cut,
                                    const CutOutcome &outcome) const;
  std::optional<MemoryShortage> findShortage(const Configuration &configuration, const ModelGraph &model,
                                             const StageCut &cut, const CutOutcome &outcome);
  bool isForMemory(FoundCut &none, const ModelGraph &model, const Configuration &configuration);
  bool holdsWeights(const ModelGraph &model, const Configuration &configuration);
  void refuseForMemory(Estimate estimate, double least, const ModelGraph &model, Priced graph);
  void refuse(const Configuration &configuration, llvm::Error error);

  std::vector<Estimate> estimates;
  /// Upper bound of the number of estimates.
  size_t all = 0;
  bool goesOn = true;
};
} // namespace

/// Numbers of micro-batches of each pipeline, at most its samples.
std::vector<uint32_t> PipelineSearch::microbatchCounts(uint32_t dataParallelSize) const {
  const int64_t all = contents.wholeBatch.sizes().lookup(request.batch),
                samples = std::max<int64_t>(all / dataParallelSize, 1);
  if (request.microbatches)
    return {all ? uint32_t(std::min<int64_t>(request.microbatches, samples)) : request.microbatches};
  std::vector<uint32_t> counts{1};
  for (int64_t count = 2; count <= std::min(samples, kMaxMicrobatches) && !obstacle; ++count)
    // Other numbers give parts of unequal size, which cost as much as the largest.
    if (samples % count == 0)
      counts.push_back(count);
  return counts;
}

/// All schedules, recomputations and numbers of micro-batches.
std::vector<Configuration> PipelineSearch::variantsOf(const Configuration &configuration) const {
  std::vector<Configuration> variants;
  for (uint32_t count : microbatchCounts(configuration.dataParallelSize)) {
    Configuration variant = configuration;
    variant.microbatches = count;
    if (request.schedules.empty())
      variants.push_back(variant);
    for (TrainingSchedule schedule : request.schedules)
      for (const TrainingOptions &training : request.training)
        // On one rank, all schedules of one stage are the same.
        if ((schedule == TrainingSchedule::Interleaved) == (configuration.stagesPerRank > 1) &&
            (configuration.pipelineParallelSize > 1 || schedule == request.schedules.front()))
          for (uint32_t zero : request.zeroStages)
            // ZeRO stages are the same for one pipeline.
            if (configuration.dataParallelSize > 1 || zero == request.zeroStages.front()) {
              variant.schedule = schedule;
              variant.training = training;
              variant.zeroStage = zero;
              variants.push_back(variant);
            }
  }
  return variants;
}

void PipelineSearch::refuse(const Configuration &configuration, llvm::Error error) {
  estimates.push_back({configuration, 0, 0, toString(std::move(error))});
}

/// Cut at the configuration's prices for training, else at the graph's own.
llvm::Expected<const StageCut *> PipelineSearch::programOrderCut(const ModelGraph &model, Priced graph,
                                                                 const Configuration &configuration) {
  auto cutting = requestFor(model, configuration, kProgramOrder);
  if (!cutting)
    return cutting.takeError();
  return configuration.schedule ? contents.pricedCuts[keyOf(configuration)].cut(graph, *cutting)
                                : contents.cuts[&model].cut(model.graph, *cutting);
}

const CutOutcome &PipelineSearch::outcomeOf(const StageCut &cut, const ModelGraph &model, Priced graph,
                                            const Configuration &configuration) {
  auto [known, isNew] = contents.outcomes.try_emplace({keyOf(configuration), &cut});
  if (isNew)
    known->second = outcomeOf(model, graph(), cut.stageOf, configuration);
  return known->second;
}

CutOutcome PipelineSearch::outcomeOf(const ModelGraph &model, const StageGraph &graph,
                                     llvm::ArrayRef<uint32_t> stageOf, const Configuration &configuration) {
  CutOutcome result;
  auto simulated = simulateCut(model, graph, stageOf, configuration);
  if (!simulated) {
    result.failure = toString(simulated.takeError());
    return result;
  }
  result.seconds = simulated->seconds;
  result.peakBytes = simulated->peakBytes;
  // With one stage per rank, its output is sent before it computes again.
  const uint32_t ranks = configuration.pipelineParallelSize;
  result.waitingBytes.resize(ranks);
  for (uint32_t rank = 0; rank < ranks && configuration.stagesPerRank > 1; ++rank) {
    int64_t alive = 0;
    for (size_t stage = rank; stage < simulated->costs.stages.size(); stage += ranks)
      alive = std::max(alive, simulated->costs.stages[stage].activationBytes);
    result.waitingBytes[rank] = std::max<int64_t>(simulated->simulation.ranks[rank].peakBytes - alive, 0);
  }
  return result;
}

//===- Limited memory -----------------------------------------------------===//

/// By rank: bytes as a plan predicts them, with values that wait for other passes.
std::vector<int64_t> PipelineSearch::plannedBytes(const CutMemory &memory, const ModelGraph &model,
                                                  const StageCut &cut, const CutOutcome &outcome) const {
  std::vector<int64_t> bytes(outcome.waitingBytes);
  for (auto [all, held] : llvm::zip_equal(bytes, memory.of(model, cut.stageOf, bytes.size())))
    all += held.bytes();
  return bytes;
}

/// Estimates leave out workspace of operators, and count memory shared by views twice.
std::optional<MemoryShortage> PipelineSearch::findShortage(const Configuration &configuration,
                                                           const ModelGraph &model, const StageCut &cut,
                                                           const CutOutcome &outcome) {
  const MemoryBudgets budgets = deviceGroupsOf(configuration).memoryOfRanks();
  std::vector<int64_t> twice;
  for (int64_t bytes : outcome.peakBytes)
    twice.push_back(2 * bytes);
  const CutMemory *memory = shortageOf(twice, budgets) ? memoryOf(configuration) : nullptr;
  return shortageOf(memory ? plannedBytes(*memory, model, cut, outcome) : outcome.peakBytes, budgets);
}

/// True if a cut would exist with more memory.
bool PipelineSearch::isForMemory(FoundCut &none, const ModelGraph &model,
                                 const Configuration &configuration) {
  if (!memoryOf(configuration))
    return false;
  if (none.isForMemory)
    return *none.isForMemory;
  none.isForMemory = false;
  auto cutting = requestFor(model, configuration, kProgramOrder);
  if (!cutting) {
    consumeError(cutting.takeError());
    return false;
  }
  for (StageDevice &stage : cutting->stages)
    stage.weightLimit.reset();
  auto cut = contents.cuts[&model].cut(model.graph, *cutting);
  none.isForMemory = bool(cut);
  consumeError(cut.takeError());
  return *none.isForMemory;
}

/// Refuses an estimate for lack of memory, unless a slower cut fits and replaces it. With `refitLowerBound`,
/// it is not proven that no cut fits.
void PipelineSearch::refuseForMemory(Estimate estimate, double least, const ModelGraph &model, Priced graph) {
  const Configuration configuration = estimate.configuration;
  const CutMemory *memory = estimate.lacksMemory ? memoryOf(configuration) : nullptr;
  auto upperBudgets = [&] {
    return largestBudgets(*memory, request.machine, configuration.pipelineParallelSize,
                          configuration.tensorParallelSize, configuration.dataParallelSize);
  };
  if (memory && mayFit(*memory, model, upperBudgets())) {
    estimate.refitLowerBound = least;
    const MemoryBudgets budgets = deviceGroupsOf(configuration).memoryOfRanks();
    const MemoryConstrainedCutter fitting(
        model, llvm::cantFail(requestFor(model, configuration, kProgramOrder), "it was cut"), budgets,
        *memory, contents.cuts[&model]);
    if (const MemoryConstrainedCutter::Fitted fitted = fitting.fit(); fitted.cut) {
      const CutOutcome &outcome = outcomeOf(*fitted.cut, model, graph, configuration);
      estimate.refitLowerBound = std::nullopt;
      const std::vector<int64_t> bytes = outcome.failure.empty()
                                             ? plannedBytes(*memory, model, *fitted.cut, outcome)
                                             : std::vector<int64_t>();
      if (!bytes.empty() && !shortageOf(bytes, budgets)) {
        estimate = {configuration, outcome.seconds, *llvm::max_element(bytes)};
        estimate.lacksMemory = true;
        if (request.best)
          *request.best = std::min(*request.best, outcome.seconds);
      }
    }
  }
  estimates.push_back(std::move(estimate));
}

void PipelineSearch::tryVariant(const Configuration &configuration, const ModelGraph &model,
                                std::optional<FoundCut> &found) {
  if (auto error = findObstacle(configuration))
    return refuse(configuration, std::move(error));
  std::optional<StageGraph> priced;
  auto graph = [&]() -> const StageGraph & {
    return priced ? *priced : priced.emplace(price(model, configuration));
  };
  auto [least, isNew] = contents.secondsLowerBound.try_emplace(keyOf(configuration));
  if (isNew)
    least->second = secondsLowerBound(graph(), configuration);
  Estimate result{configuration, least->second};
  result.isLowerBound = request.best && result.seconds >= *request.best;
  if (result.isLowerBound) {
    estimates.push_back(std::move(result));
    return;
  }
  if (!found) {
    found.emplace();
    if (auto error = programOrderCut(model, graph, configuration).moveInto(found->cut))
      found->obstacle = toString(std::move(error));
  }
  if (!found->cut) {
    result = {configuration, 0, 0, found->obstacle};
    result.lacksMemory = isForMemory(*found, model, configuration);
    return refuseForMemory(std::move(result), least->second, model, graph);
  }
  result.cut = request.cache ? found->cut : nullptr;
  const CutOutcome &outcome = outcomeOf(*found->cut, model, graph, configuration);
  if (!outcome.failure.empty())
    return refuse(configuration, makeError("{0}", outcome.failure));
  result.seconds = outcome.seconds;
  result.peakBytes = *llvm::max_element(outcome.peakBytes);
  result.shortage = findShortage(configuration, model, *found->cut, outcome);
  if (result.shortage) {
    result.obstacle = result.shortage->describe();
    result.lacksMemory = true;
    return refuseForMemory(std::move(result), outcome.seconds, model, graph);
  }
  if (request.best)
    *request.best = std::min(*request.best, result.seconds);
  estimates.push_back(std::move(result));
}

/// True if all ranks together can hold all weights.
bool PipelineSearch::holdsWeights(const ModelGraph &model, const Configuration &configuration) {
  int64_t left = std::accumulate(model.graph.weightBytes.begin(), model.graph.weightBytes.end(), int64_t(0));
  for (const auto &room : deviceGroupsOf(configuration).memoryOfRanks()) {
    if (!room || *room >= left)
      return true;
    left -= *room;
  }
  return left <= 0;
}

/// Tries all variants, until the search is cancelled.
void PipelineSearch::tryStages(const Configuration &configuration) {
  trainingCosts.clear();
  const ModelGraph &model = graphOf(configuration);
  // One cut for all variants, made once one of them may be the best.
  std::optional<FoundCut> found;
  for (const Configuration &variant : variantsOf(configuration)) {
    if (!goesOn) {
      refuse(variant, makeError("{0}", kNotEvaluated));
      continue;
    }
    tryVariant(variant, model, found);
    if (request.onEstimate)
      goesOn = request.onEstimate(estimates.back(), double(estimates.size()) / all);
    // If no cut fits, other numbers of micro-batches, which change only activations, are not tried either.
    const Estimate &last = estimates.back();
    if (found && !found->cut && !last.refitLowerBound && !request.triesAllMicrobatches &&
        !(last.lacksMemory && holdsWeights(model, configuration)))
      return;
  }
}

std::vector<Configuration> PipelineSearch::pipelines() const {
  std::vector<Configuration> result;
  // Many ranks are mostly fastest, which leaves fewer cuts to make.
  for (auto [ranks, pipelines] : llvm::reverse(request.pipelines))
    for (uint32_t stagesPerRank : request.stagesPerRank) {
      // A single rank has no bubbles to shorten.
      if (ranks == 1 && stagesPerRank > 1 && request.stagesPerRank.size() > 1)
        continue;
      Configuration configuration{ranks, tensorParallelSizeOf(function)};
      configuration.dataParallelSize = pipelines;
      configuration.stagesPerRank = stagesPerRank;
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
  std::vector<Estimate> found = PipelineSearch(function, request).run();
  for (Estimate &one : found)
    one.function = function;
  return found;
}

} // namespace cleave
