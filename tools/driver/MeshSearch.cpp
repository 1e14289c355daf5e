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
  return formatv("pp={0},tp={1}", configuration.pipelineRanks, configuration.tensorRanks);
}

namespace {
class MeshSearch {
public:
  MeshSearch(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape)
      : maker(maker), options(options), shape(shape) {}
  Expected<ChosenMesh> run();

private:
  void tryTensorRanks(uint32_t tensorRanks, const std::vector<uint32_t> &ranks);
  void weigh(bool acrossNodes);
  PipelineShape shapeOf(const Configuration &configuration) const;
  Expected<ChosenMesh> choose();
  std::vector<MeshAlternative> describe(const Estimate &chosen) const;
  std::vector<std::string> noteUnused(const Estimate &chosen) const;

  PlanMaker &maker;
  const CompileOptions &options;
  const PipelineShape &shape;
  Machine machine;
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

/// All pipelines of groups of `tensorRanks`.
void MeshSearch::tryTensorRanks(uint32_t tensorRanks, const std::vector<uint32_t> &ranks) {
  if (options.progress)
    options.progress(formatv("weighing tp={0}", tensorRanks), std::nullopt);
  PipelineSearchRequest request;
  request.machine = machine;
  request.pipelineRanks = ranks;
  request.stagesOfRank = shape.search->stagesOfRank;
  request.microbatches = shape.microbatches;
  request.batch = shape.batch;
  request.stageBefore = options.stageBefore;
  request.best = &best;
  auto function = maker.shard(shapeOf({ranks.back(), tensorRanks, 1, shape.microbatches}));
  if (function)
    llvm::append_range(estimates, searchPipelines(*function, request));
  else
    estimates.push_back({{ranks.back(), tensorRanks, request.stagesOfRank.front(), std::max(1u, shape.microbatches)}, 0, 0,
                         toString(function.takeError())});
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
    result.push_back({meshOf(it), it.stagesOfRank > 1 ? "interleaved" : "gpipe", it.microbatches,
                      isUsable ? estimate.seconds : 0, isUsable ? estimate.peakBytes : 0, reason});
  }
  return result;
}

std::vector<std::string> MeshSearch::noteUnused(const Estimate &chosen) const {
  const uint32_t all = shape.search->devices;
  auto devicesOf = [](const Configuration &it) { return it.pipelineRanks * it.tensorRanks; };
  const uint32_t used = devicesOf(chosen.configuration);
  if (used == all)
    return {};
  std::string note = formatv("{0} of the {1} devices {2} used", used, all, used == 1 ? "is" : "are");
  auto other = llvm::find_if(estimates, [&](const Estimate &one) { return devicesOf(one.configuration) == all; });
  if (other != estimates.end())
    note += ": with all of them, " + meshOf(other->configuration) + " ";
  if (other != estimates.end() && other->obstacle.empty())
    note += formatv("takes {0:f1} % longer", (other->seconds / chosen.seconds - 1) * 100);
  else if (other != estimates.end())
    note += "fails: " + other->obstacle;
  return {note};
}

/// The first of the estimates, in their order, of which a plan can be made.
Expected<ChosenMesh> MeshSearch::choose() {
  llvm::stable_sort(estimates, [](const Estimate &a, const Estimate &b) {
    auto keyOf = [](const Estimate &one) { return std::tuple(!one.obstacle.empty(), one.isBound, one.seconds); };
    return keyOf(a) < keyOf(b);
  });
  for (Estimate &estimate : estimates) {
    if (!estimate.obstacle.empty() || estimate.isBound)
      break;
    ChosenMesh chosen{shapeOf(estimate.configuration), nullptr, {}, {}};
    auto plan = maker.make(chosen.shape);
    if (plan) {
      chosen.plan = std::move(*plan);
      chosen.alternatives = describe(estimate);
      chosen.notes = noteUnused(estimate);
      // The chosen one first, also where faster ones turned out not to work.
      std::stable_partition(chosen.alternatives.begin(), chosen.alternatives.end(), [](const MeshAlternative &one) { return one.reason.empty(); });
      return chosen;
    }
    estimate.obstacle = toString(plan.takeError());
  }
  return llvm::createStringError(options.model + ": no mesh of " + std::to_string(shape.search->devices) +
                                 " devices can be used; " + meshOf(estimates.front().configuration) + ": " +
                                 estimates.front().obstacle);
}

/// All that is open, with tensor groups within nodes or with the others.
void MeshSearch::weigh(bool acrossNodes) {
  const MeshSearchSpace &space = *shape.search;
  auto isTried = [&](uint32_t count, std::optional<uint32_t> fixed) {
    return fixed ? count == *fixed : space.devices % count == 0;
  };
  for (uint32_t tensorRanks = 1; tensorRanks <= std::min<uint32_t>(space.devices, kMostTensorRanks); ++tensorRanks) {
    std::vector<uint32_t> ranks;
    for (uint32_t count = 1; count <= space.devices / tensorRanks; ++count)
      if (isTried(count, space.ranks))
        ranks.push_back(count);
    if (!ranks.empty() && isTried(tensorRanks, space.tensorRanks) && machine.crossesNodes(tensorRanks) == acrossNodes)
      tryTensorRanks(tensorRanks, ranks);
  }
}

Expected<ChosenMesh> MeshSearch::run() {
  const MeshSearchSpace &space = *shape.search;
  auto loaded = options.machine.empty() ? Expected<Machine>(Machine::cpu(space.devices)) : Machine::load(options.machine);
  if (!loaded)
    return loaded.takeError();
  machine = std::move(*loaded);
  weigh(/*acrossNodes=*/false);
  // Over the link between nodes a tensor group does each sum many times more slowly: only where nothing else is left.
  if (llvm::none_of(estimates, [](const Estimate &one) { return one.obstacle.empty(); }))
    weigh(/*acrossNodes=*/true);
  if (estimates.empty())
    return wrongUsage("--mesh " + options.mesh + ": found " + llvm::Twine(space.devices) + " device" +
                      (space.devices == 1 ? "" : "s") + ", expected more for this mesh; use --devices or --machine");
  return choose();
}

Expected<ChosenMesh> searchMesh(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape) {
  return MeshSearch(maker, options, shape).run();
}

} // namespace cleave
