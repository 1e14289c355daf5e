//===- MeshSearch.cpp - The mesh that takes least time --------------------===//
#include "tools/driver/MeshSearch.h"
#include "partitioner/PipelineSearch.h"
#include "partitioner/Sharding.h"
#include "tools/driver/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::formatv;

static std::string meshOf(const Configuration &configuration) {
  std::string data = configuration.kind ? ",dp=" + std::to_string(configuration.dataRanks) : "";
  return formatv("pp={0}{1},tp={2}", configuration.pipelineRanks, data, configuration.tensorRanks);
}

namespace {
class MeshSearch {
public:
  MeshSearch(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape)
      : maker(maker), options(options), shape(shape) {}
  Error weighAll();
  /// Again, without bounds: those that were faster cannot be made after all.
  Error weighTheRest() {
    looksAtAll = true;
    estimates.clear();
    return weighAll();
  }
  bool hasBounds() const {
    return llvm::any_of(estimates, [](const Estimate &one) { return one.isBound; });
  }
  /// The first of the estimates, in their order, of which a plan can be made.
  Expected<ChosenMesh> choose();
  Expected<TrainingForecast> chooseTraining();

private:
  using Pipelines = std::vector<std::pair<uint32_t, uint32_t>>;
  PipelineSearchRequest requestFor(const Pipelines &pipelines);
  void tryTensorRanks(uint32_t tensorRanks, const Pipelines &pipelines);
  void weigh(bool acrossNodes);
  PipelineShape shapeOf(const Configuration &configuration) const;
  std::vector<MeshAlternative> describe(const Estimate &chosen) const;
  std::vector<std::string> noteUnused(const Estimate &chosen) const;
  Error noneFits() const;

  PlanMaker &maker;
  const CompileOptions &options;
  const PipelineShape &shape;
  Machine machine;
  /// What cannot be faster than the best is estimated, too.
  bool looksAtAll = false;
  double best = std::numeric_limits<double>::infinity();
  std::vector<Estimate> estimates;
};
} // namespace

PipelineShape MeshSearch::shapeOf(const Configuration &configuration) const {
  PipelineShape found = shape;
  found.search = std::nullopt;
  found.ranks = configuration.pipelineRanks;
  found.stages = configuration.pipelineRanks * configuration.stagesOfRank;
  found.tensorRanks = configuration.tensorRanks;
  found.microbatches = configuration.microbatches;
  if (found.tensorRanks == 1)
    found.shard.clear();
  if (found.microbatches == 1)
    found.batch.clear();
  return found;
}

PipelineSearchRequest MeshSearch::requestFor(const Pipelines &pipelines) {
  PipelineSearchRequest request;
  request.machine = machine;
  request.pipelines = pipelines;
  request.stagesOfRank = shape.search->stagesOfRank;
  request.microbatches = shape.microbatches;
  request.kinds = shape.search->kinds;
  request.training = shape.search->training;
  request.batch = shape.batch;
  request.stageBefore = options.stageBefore;
  request.best = looksAtAll ? nullptr : &best;
  return request;
}

/// All pipelines of groups of `tensorRanks`.
void MeshSearch::tryTensorRanks(uint32_t tensorRanks, const Pipelines &pipelines) {
  if (options.progress)
    options.progress(formatv("weighing tp={0}", tensorRanks), std::nullopt);
  Configuration widest{pipelines.back().first, tensorRanks};
  widest.stagesOfRank = shape.search->stagesOfRank.front();
  widest.microbatches = shape.microbatches;
  auto function = maker.shard(shapeOf(widest));
  if (function)
    llvm::append_range(estimates, searchPipelines(*function, requestFor(pipelines)));
  else
    estimates.push_back({widest, 0, 0, toString(function.takeError())});
}

static std::string scheduleOf(const Configuration &configuration) {
  if (!configuration.kind)
    return configuration.stagesOfRank > 1 ? "interleaved" : "gpipe";
  return (nameOf(*configuration.kind) + ", recompute " + nameOf(configuration.training.recompute)).str();
}

std::vector<MeshAlternative> MeshSearch::describe(const Estimate &chosen) const {
  std::vector<MeshAlternative> result;
  for (const Estimate &estimate : estimates) {
    const Configuration &it = estimate.configuration;
    std::string reason = estimate.obstacle;
    if (reason.empty() && !(it == chosen.configuration))
      reason = formatv("takes {0}{1:f1} % longer", estimate.isBound ? "at least " : "",
                       (estimate.seconds / chosen.seconds - 1) * 100);
    const bool isUsable = estimate.obstacle.empty();
    result.push_back({meshOf(it), scheduleOf(it), it.microbatches,
                      isUsable ? estimate.seconds : 0, isUsable ? estimate.peakBytes : 0, reason});
  }
  // The chosen one first, also where faster ones turned out not to work.
  std::stable_partition(result.begin(), result.end(), [](const MeshAlternative &one) { return one.reason.empty(); });
  return result;
}

std::vector<std::string> MeshSearch::noteUnused(const Estimate &chosen) const {
  const uint32_t all = shape.search->devices;
  const uint32_t used = chosen.configuration.devices();
  if (used == all)
    return {};
  std::string note = formatv("{0} of the {1} devices {2} used", used, all, used == 1 ? "is" : "are");
  auto other = llvm::find_if(estimates, [&](const Estimate &one) { return one.configuration.devices() == all; });
  if (other != estimates.end())
    note += ": with all of them, " + meshOf(other->configuration) + " ";
  if (other != estimates.end() && other->obstacle.empty())
    note += formatv("takes {0:f1} % longer", (other->seconds / chosen.seconds - 1) * 100);
  else if (other != estimates.end())
    note += "fails: " + other->obstacle;
  return {note};
}

Error MeshSearch::noneFits() const {
  const Estimate &first = estimates.front();
  return llvm::createStringError(options.model + ": no mesh of " + std::to_string(shape.search->devices) +
                                 " devices can be used; " + meshOf(first.configuration) + ": " + first.obstacle);
}

Expected<ChosenMesh> MeshSearch::choose() {
  for (Estimate &estimate : estimates) {
    if (!estimate.obstacle.empty() || estimate.isBound)
      break;
    ChosenMesh chosen{shapeOf(estimate.configuration), nullptr, {}, {}};
    auto plan = maker.make(chosen.shape);
    if (plan) {
      chosen.plan = std::move(*plan);
      chosen.alternatives = describe(estimate);
      chosen.notes = noteUnused(estimate);
      return chosen;
    }
    estimate.obstacle = toString(plan.takeError());
  }
  return noneFits();
}

Expected<TrainingForecast> MeshSearch::chooseTraining() {
  const Estimate &best = estimates.front();
  if (!best.obstacle.empty())
    return noneFits();
  TrainingForecast result{best.configuration, {}, {}, {}, noteUnused(best)};
  auto function = maker.shard(shapeOf(best.configuration));
  if (!function)
    return function.takeError();
  const PipelineSearchRequest request = requestFor({{best.configuration.pipelineRanks, best.configuration.dataRanks}});
  if (auto error = forecastPipeline(*function, request, best.configuration).moveInto(result.pipeline))
    return error;
  for (uint32_t device = 0; device < best.configuration.devices(); ++device)
    result.devices.push_back(machine.devices[device].name);
  if (estimates.size() > 1)
    result.alternatives = describe(best);
  return result;
}

/// All that is open, with tensor groups within nodes or with the others.
void MeshSearch::weigh(bool acrossNodes) {
  const MeshSearchSpace &space = *shape.search;
  auto isTried = [&](uint32_t count, std::optional<uint32_t> fixed) {
    return fixed ? count == *fixed : space.devices % count == 0;
  };
  for (uint32_t tensorRanks = 1; tensorRanks <= std::min<uint32_t>(space.devices, kMostTensorRanks); ++tensorRanks) {
    Pipelines pipelines;
    for (uint32_t count = 1; count <= space.devices / tensorRanks; ++count)
      for (uint32_t side = 1; side <= space.devices / tensorRanks / count; ++side)
        // Pipelines side by side use all devices.
        if (isTried(count, space.ranks) && (space.dataRanks ? side == *space.dataRanks : count * side * tensorRanks == space.devices))
          pipelines.push_back({count, side});
    if (!pipelines.empty() && isTried(tensorRanks, space.tensorRanks) && machine.crossesNodes(tensorRanks) == acrossNodes)
      tryTensorRanks(tensorRanks, pipelines);
  }
}

Error MeshSearch::weighAll() {
  const MeshSearchSpace &space = *shape.search;
  if (auto error = (options.machine.empty() ? Expected<Machine>(Machine::cpu(space.devices)) : Machine::load(options.machine))
                       .moveInto(machine))
    return error;
  weigh(/*acrossNodes=*/false);
  // Over the link between nodes a tensor group does each sum many times more slowly: only where nothing else is left.
  if (llvm::none_of(estimates, [](const Estimate &one) { return one.obstacle.empty(); }))
    weigh(/*acrossNodes=*/true);
  if (estimates.empty())
    return wrongUsage("--mesh " + options.mesh + ": found " + llvm::Twine(space.devices) + " device" +
                      (space.devices == 1 ? "" : "s") + ", expected more for this mesh; use --devices or --machine");
  llvm::stable_sort(estimates, [](const Estimate &a, const Estimate &b) {
    auto keyOf = [](const Estimate &one) { return std::tuple(!one.obstacle.empty(), one.isBound, one.seconds); };
    return keyOf(a) < keyOf(b);
  });
  return Error::success();
}

Expected<ChosenMesh> searchMesh(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape) {
  MeshSearch search(maker, options, shape);
  if (auto error = search.weighAll())
    return error;
  auto chosen = search.choose();
  if (chosen || !search.hasBounds())
    return chosen;
  consumeError(chosen.takeError());
  if (auto error = search.weighTheRest())
    return error;
  return search.choose();
}

Expected<TrainingForecast> searchTraining(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape) {
  MeshSearch search(maker, options, shape);
  if (auto error = search.weighAll())
    return error;
  return search.chooseTraining();
}

} // namespace cleave
