//===- MeshSearch.cpp - The mesh that takes least time --------------------===//
#include "tools/driver/MeshSearch.h"
#include "partitioner/PipelineSearch.h"
#include "partitioner/Sharding.h"
#include "tools/driver/SearchWatch.h"
#include "tools/driver/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <algorithm>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

/// `12.3 % longer`.
static std::string longer(double seconds, double best) {
  const double percent = (seconds / best - 1) * 100;
  return percent < 0.05 ? "as long" : formatv("{0:f1} % longer", percent).str();
}

namespace {
class MeshSearch {
public:
  MeshSearch(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape)
      : maker(maker), options(options), shape(shape), watch(options) {}
  Error weighAll();
  /// The first of the estimates, in their order, of which a plan can be made.
  Expected<ChosenMesh> choose();
  Expected<TrainingForecast> chooseTraining();

private:
  using Pipelines = std::vector<std::pair<uint32_t, uint32_t>>;
  PipelineSearchRequest requestFor(mlir::func::FuncOp function, const Pipelines &pipelines);
  Error tryTensorRanks(uint32_t tensorRanks, const Pipelines &pipelines);
  Error weigh(bool acrossNodes);
  bool mustLookAtAll();
  PipelineShape shapeOf(const Configuration &configuration) const;
  plan::Alternatives describe(const Estimate &chosen) const;
  std::vector<std::string> noteUnused(const Estimate &chosen) const;
  std::vector<std::string> notesOn(const Estimate &chosen) const;
  Error noneFits();

  PlanMaker &maker;
  const CompileOptions &options;
  const PipelineShape &shape;
  SearchWatch watch;
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
  found.dataRanks = configuration.dataRanks;
  found.microbatches = configuration.microbatches;
  if (found.tensorRanks == 1)
    found.shard.clear();
  if (found.microbatches == 1)
    found.batch.clear();
  return found;
}

PipelineSearchRequest MeshSearch::requestFor(mlir::func::FuncOp function, const Pipelines &pipelines) {
  PipelineSearchRequest request;
  request.machine = machine;
  request.pipelines = pipelines;
  request.stagesOfRank = shape.search->stagesOfRank;
  request.microbatches = shape.microbatches;
  request.kinds = shape.search->kinds;
  request.training = shape.search->training;
  request.zero = shape.search->zero;
  request.batch = shape.batch;
  request.stageBefore = options.stageBefore;
  request.best = looksAtAll ? nullptr : &best;
  request.goesOn = [this](const Estimate &estimate, double share) { return watch.sees(estimate, share); };
  request.known = &maker.pipelinesOf(function);
  return request;
}

/// All pipelines of groups of `tensorRanks`.
Error MeshSearch::tryTensorRanks(uint32_t tensorRanks, const Pipelines &pipelines) {
  if (!watch.beginPart(formatv("tp={0}", tensorRanks).str(), pipelines.size()))
    return Error::success();
  Configuration widest{pipelines.back().first, tensorRanks, pipelines.back().second};
  widest.stagesOfRank = shape.search->stagesOfRank.front();
  widest.microbatches = std::max(1u, shape.microbatches);
  auto function = maker.shard(shapeOf(widest));
  if (function)
    llvm::append_range(estimates, searchPipelines(*function, requestFor(*function, pipelines)));
  else if (estimates.empty())
    // What the first sharding does not take is mostly no matter of the mesh.
    return function.takeError();
  else
    estimates.push_back({widest, 0, 0, toString(function.takeError())});
  return Error::success();
}

static std::string scheduleOf(const Configuration &configuration) {
  if (!configuration.kind)
    return configuration.stagesOfRank > 1 ? "interleaved" : "gpipe";
  const std::string zero = configuration.zero ? ", zero " + std::to_string(configuration.zero) : "";
  return (nameOf(*configuration.kind) + ", recompute " + nameOf(configuration.training.recompute) + zero).str();
}

/// As a plan may hold it, a line of text, and the same wherever the model's file is.
static std::string reasonOf(StringRef obstacle, StringRef model) {
  if (obstacle.consume_front(model))
    obstacle.consume_front(": ");
  std::string text = llvm::json::fixUTF8(obstacle.ltrim().split('\n').first);
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

plan::Alternatives MeshSearch::describe(const Estimate &chosen) const {
  plan::Alternatives result;
  for (const Estimate &estimate : estimates) {
    const Configuration &it = estimate.configuration;
    const bool isUsable = estimate.obstacle.empty();
    plan::Alternative &one = *result.emplace_back(std::make_unique<plan::Alternative>());
    one.mesh = meshOf(it);
    one.schedule = scheduleOf(it);
    one.microbatches = it.microbatches;
    one.seconds = isUsable ? estimate.seconds : 0;
    one.peak_bytes = isUsable ? estimate.peakBytes : 0;
    if (!isUsable)
      one.reason = reasonOf(estimate.obstacle, options.model);
    else if (!(it == chosen.configuration))
      one.reason =
          (estimate.isBound ? "takes at least " : "takes ") + longer(estimate.seconds, chosen.seconds);
  }
  // The chosen one first, also where faster ones turned out not to work.
  std::stable_partition(result.begin(), result.end(), [](const auto &one) { return one->reason.empty(); });
  result.resize(std::min(result.size(), plan::kMaxAlternatives));
  return result;
}

std::vector<std::string> MeshSearch::noteUnused(const Estimate &chosen) const {
  const uint32_t all = shape.search->devices;
  const uint32_t used = chosen.configuration.devices();
  if (used == all)
    return {};
  std::string note = formatv("{0} of the {1} devices {2} used", used, all, used == 1 ? "is" : "are");
  auto other = llvm::find_if(estimates, [&](const Estimate &one) {
    return one.configuration.devices() == all && one.obstacle != kNotWeighed;
  });
  if (other != estimates.end())
    note += ": with all of them, " + meshOf(other->configuration) + " ";
  if (other != estimates.end() && other->obstacle.empty())
    note += (other->isBound ? "takes at least " : "takes ") + longer(other->seconds, chosen.seconds) +
            " by estimate";
  else if (other != estimates.end())
    note += "fails: " + other->obstacle;
  return {note};
}

std::vector<std::string> MeshSearch::notesOn(const Estimate &chosen) const {
  std::vector<std::string> notes = noteUnused(chosen);
  llvm::append_range(notes, watch.notes(estimates));
  return notes;
}

Error MeshSearch::noneFits() {
  if (watch.isInterrupted())
    return llvm::createStringError(options.model + ": interrupted before a mesh was found that can be used; let it search longer");
  const Estimate *least = nullptr;
  auto bytesOf = [](const Estimate &one) { return one.shortage ? one.shortage->bytes : one.peakBytes; };
  for (const Estimate &one : estimates)
    if (bytesOf(one) > 0 && (!least || bytesOf(one) < bytesOf(*least)))
      least = &one;
  // What was estimated lacks memory alone.
  if (least && least->shortage)
    return llvm::createStringError(
        formatv("{0}: {1} takes least memory, {2} bytes on a device that has {3}; use more devices, or devices with memory for {2}",
                options.model, meshOf(least->configuration), least->shortage->bytes, least->shortage->room)
            .str());
  const Estimate &first = estimates.front();
  auto saysTheSame = [&](const Estimate &one) { return one.obstacle == first.obstacle; };
  std::string what = llvm::all_of(estimates, saysTheSame)
                         ? ""
                         : formatv("no mesh of {0} devices can be used; {1}: ", shape.search->devices, meshOf(first.configuration)).str();
  StringRef obstacle = first.obstacle;
  obstacle.consume_front(options.model + ": ");
  return llvm::createStringError(options.model + ": " + what + obstacle);
}

/// Whether others were compared with an estimate that did not hold, and only bounded; then all are to be estimated.
bool MeshSearch::mustLookAtAll() {
  auto isBound = [](const Estimate &one) { return one.isBound; };
  if (looksAtAll || watch.isInterrupted() || llvm::none_of(estimates, isBound))
    return false;
  looksAtAll = true;
  return true;
}

Expected<ChosenMesh> MeshSearch::choose() {
  for (Estimate &estimate : estimates) {
    if (!estimate.obstacle.empty() || estimate.isBound)
      break;
    ChosenMesh chosen{shapeOf(estimate.configuration), nullptr, {}};
    EarlyEnd ending = watch.making(estimate.configuration);
    auto plan = maker.make(chosen.shape);
    if (plan) {
      chosen.plan = std::move(*plan);
      chosen.plan->alternatives = describe(estimate);
      chosen.notes = notesOn(estimate);
      return chosen;
    }
    estimate.obstacle = toString(plan.takeError());
    if (!mustLookAtAll())
      continue;
    if (auto error = weighAll())
      return error;
    return choose();
  }
  return noneFits();
}

Expected<TrainingForecast> MeshSearch::chooseTraining() {
  for (Estimate &best : estimates) {
    if (!best.obstacle.empty() || best.isBound)
      break;
    TrainingForecast result{best.configuration, {}, {}, {}, {}};
    EarlyEnd ending = watch.making(best.configuration);
    auto function = maker.shard(shapeOf(best.configuration));
    if (!function)
      return function.takeError();
    const PipelineSearchRequest request = requestFor(*function, {{best.configuration.pipelineRanks, best.configuration.dataRanks}});
    if (auto error = forecastPipeline(*function, request, best.configuration).moveInto(result.pipeline))
      return error;
    // With the exact cut it may be another than estimated.
    const Configuration &it = best.configuration;
    const PipelinePlaces places(machine, it.pipelineRanks, it.dataRanks * it.tensorRanks, it.tensorRanks);
    if (auto shortage = shortageOf(result.pipeline.peakBytes, places.memoryOfRanks())) {
      best.obstacle = shortage->describe();
      if (!mustLookAtAll())
        continue;
      if (auto error = weighAll())
        return error;
      return chooseTraining();
    }
    for (uint32_t device = 0; device < best.configuration.devices(); ++device)
      result.devices.push_back(machine.devices[device].name);
    if (estimates.size() > 1)
      result.alternatives = describe(best);
    result.notes = notesOn(best);
    return result;
  }
  return noneFits();
}

/// All that is open, with tensor groups within nodes or with the others.
Error MeshSearch::weigh(bool acrossNodes) {
  const MeshSearchSpace &space = *shape.search;
  std::vector<std::pair<uint32_t, Pipelines>> parts;
  size_t all = 0;
  auto isTried = [&](uint32_t count, std::optional<uint32_t> fixed) {
    return fixed ? count == *fixed : space.devices % count == 0;
  };
  for (uint32_t tensorRanks = 1; tensorRanks <= std::min<uint32_t>(space.devices, kMostTensorRanks); ++tensorRanks) {
    Pipelines pipelines;
    for (uint32_t count = 1; count <= space.devices / tensorRanks; ++count)
      for (uint32_t side = 1; side <= space.devices / tensorRanks / count; ++side)
        if (isTried(count, space.ranks) && isTried(side, space.dataRanks))
          pipelines.push_back({count, side});
    // Who says how weights are split wants them split.
    const bool isWanted = tensorRanks > 1 || shape.shard.empty();
    if (!pipelines.empty() && isWanted && isTried(tensorRanks, space.tensorRanks) &&
        machine.crossesNodes(tensorRanks) == acrossNodes) {
      all += pipelines.size();
      parts.push_back({tensorRanks, std::move(pipelines)});
    }
  }
  watch.begin(all);
  for (auto &[tensorRanks, pipelines] : parts)
    if (auto error = tryTensorRanks(tensorRanks, pipelines))
      return error;
  return Error::success();
}

Error MeshSearch::weighAll() {
  const MeshSearchSpace &space = *shape.search;
  if (auto error = (options.machine.empty() ? Expected<Machine>(Machine::cpu(space.devices)) : Machine::load(options.machine))
                       .moveInto(machine))
    return error;
  if (shape.memoryGiven)
    for (DeviceSpec &device : machine.devices)
      device.memoryBytes = shape.memoryGiven;
  estimates.clear();
  if (auto error = weigh(/*acrossNodes=*/false))
    return error;
  // Over the link between nodes a tensor group does each sum many times more slowly: only where nothing else is left.
  if (llvm::none_of(estimates, [](const Estimate &one) { return one.obstacle.empty(); }))
    if (auto error = weigh(/*acrossNodes=*/true))
      return error;
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
  return search.choose();
}

Expected<TrainingForecast> searchTraining(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape) {
  MeshSearch search(maker, options, shape);
  if (auto error = search.weighAll())
    return error;
  return search.chooseTraining();
}

} // namespace cleave
