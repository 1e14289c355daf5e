//===- MeshSearch.cpp - Searches for the fastest mesh ---------------------===//
#include "tools/driver/search/MeshSearch.h"
#include "partitioner/search/PipelineSearch.h"
#include "partitioner/sharding/Sharding.h"
#include "tools/driver/base/Forecast.h"
#include "tools/driver/base/UsageError.h"
#include "tools/driver/search/MeshCandidates.h"
#include "tools/driver/search/SearchWatch.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

namespace {
class MeshSearch {
public:
  MeshSearch(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape)
      : maker(maker), options(options), shape(shape), watch(options) {}
  Error evaluateAll();
  /// Makes a plan of the first estimate that allows it, best first.
  Expected<ChosenMesh> choose();
  Expected<TrainingForecast> chooseTraining();

private:
  using Pipelines = std::vector<std::pair<uint32_t, uint32_t>>;
  using LeastMemory = std::pair<Configuration, MemoryShortage>;
  PipelineSearchRequest requestFor(mlir::func::FuncOp function, const Pipelines &pipelines);
  bool isLimited() const {
    return shape.memoryGiven ||
           llvm::any_of(shape.memoryOfDevices, [](const auto &bytes) { return bytes.has_value(); });
  }
  bool memoryDecidesReplication() const { return isLimited() && shape.search->schedules.empty(); }
  Expected<mlir::func::FuncOp> shard(const Configuration &configuration, bool mayReplicateWeights);
  Configuration someOf(std::pair<uint32_t, uint32_t> pipeline, uint32_t tensorParallelSize) const;
  Error tryTensorRanks(uint32_t tensorParallelSize, const Pipelines &pipelines);
  void tryOtherShardings(mlir::func::FuncOp function, uint32_t tensorParallelSize,
                         const Pipelines &pipelines);
  void tryAgain(mlir::func::FuncOp function, const Pipelines &pipelines);
  bool addEstimate(const Estimate &estimate, double share);
  Error evaluateMeshes(bool acrossNodes);
  bool mustLookAgain();
  void sort();
  const Estimate *nextToMake() const;
  bool isTried(const Configuration &configuration) const;
  void applyTried();
  void make(const Estimate &estimate, bool isLast = false);
  std::optional<LeastMemory> leastMemory();
  PipelineShape shapeOf(const Configuration &configuration) const;
  std::vector<std::string> notesOn(const Estimate &chosen) const;
  Error noneFits(const std::optional<LeastMemory> &least);

  PlanMaker &maker;
  const CompileOptions &options;
  const PipelineShape &shape;
  SearchWatch watch;
  Machine machine;
  /// Configurations that cannot be faster than `best` are not cut. It starts as `slowest`, then follows
  /// results.
  double slowest = std::numeric_limits<double>::infinity(), best = slowest;
  /// Nothing fits: all configurations are listed to say what would.
  bool triesAllMicrobatches = false;
  /// Second attempt of those that lack memory; without progress.
  bool triesAgain = false;
  std::vector<Estimate> estimates;
  /// Result of a configuration: seconds, or an obstacle.
  struct Tried {
    Configuration configuration;
    double seconds;
    std::string obstacle;
  };
  std::vector<Tried> tried;
  std::optional<ChosenMesh> fastest;
  double fastestSeconds = std::numeric_limits<double>::infinity();
  Configuration fastestConfiguration;
};
} // namespace

PipelineShape MeshSearch::shapeOf(const Configuration &configuration) const {
  PipelineShape found = shape;
  found.search = std::nullopt;
  found.pipelineParallelSize = configuration.pipelineParallelSize;
  found.stages = configuration.pipelineParallelSize * configuration.stagesPerRank;
  found.tensorParallelSize = configuration.tensorParallelSize;
  found.dataParallelSize = configuration.dataParallelSize;
  found.microbatches = configuration.microbatches;
  if (found.tensorParallelSize == 1)
    found.shard.clear();
  if (found.microbatches == 1 && found.dataParallelSize == 1)
    found.batch.clear();
  return found;
}

PipelineSearchRequest MeshSearch::requestFor(mlir::func::FuncOp function, const Pipelines &pipelines) {
  PipelineSearchRequest request;
  request.machine = machine;
  request.pipelines = pipelines;
  request.stagesPerRank = shape.search->stagesPerRank;
  request.microbatches = shape.microbatches;
  request.schedules = shape.search->schedules;
  request.training = shape.search->training;
  request.zeroStages = shape.search->zeroStages;
  request.batch = shape.batch;
  request.signatures = maker.signatureFunctions(function).vec();
  request.stageBefore = options.stageBefore;
  request.best = &best;
  request.triesAllMicrobatches = triesAllMicrobatches;
  request.onEstimate = [this](const Estimate &estimate, double share) {
    return addEstimate(estimate, triesAgain ? 1 : share);
  };
  request.cache = &maker.pipelineCacheOf(function);
  return request;
}

bool MeshSearch::addEstimate(const Estimate &estimate, double share) {
  // What came to something else than estimated, or has room without it, is no measure.
  const Configuration &it = estimate.configuration;
  if (isTried(it) || (triesAgain && llvm::any_of(estimates, [&](const Estimate &one) {
                        return one.configuration == it && !one.lacksMemory;
                      })))
    best = slowest;
  else
    slowest = best;
  return watch.addEstimate(estimate, share);
}

Expected<mlir::func::FuncOp> MeshSearch::shard(const Configuration &configuration, bool mayReplicateWeights) {
  PipelineShape one = shapeOf(configuration);
  one.mayReplicateWeights = mayReplicateWeights;
  return maker.shard(one);
}

/// A configuration of the pipeline, with groups of `tensorParallelSize`.
Configuration MeshSearch::someOf(std::pair<uint32_t, uint32_t> pipeline, uint32_t tensorParallelSize) const {
  Configuration configuration{pipeline.first, tensorParallelSize, pipeline.second};
  configuration.stagesPerRank = shape.search->stagesPerRank.front();
  configuration.microbatches = std::max(1u, shape.microbatches);
  return configuration;
}

/// Tries all pipelines with groups of `tensorParallelSize`.
Error MeshSearch::tryTensorRanks(uint32_t tensorParallelSize, const Pipelines &pipelines) {
  if (!watch.beginPart(formatv("tp={0}", tensorParallelSize).str(), pipelines.size()))
    return Error::success();
  const Configuration widest = someOf(pipelines.back(), tensorParallelSize);
  auto function = shard(widest, /*mayReplicateWeights=*/true);
  // If the first sharding fails, the mesh is mostly not the reason.
  if (!function && estimates.empty())
    return function.takeError();
  if (!function) {
    estimates.push_back({widest, 0, 0, toString(function.takeError())});
    return Error::success();
  }
  const std::vector<Estimate> found = searchPipelines(*function, requestFor(*function, pipelines));
  llvm::append_range(estimates, found);
  if (tensorParallelSize == 1 || watch.isInterrupted())
    return Error::success();
  Pipelines lacking;
  for (const auto &pipeline : pipelines)
    if (llvm::any_of(found, [&](const Estimate &one) {
          return one.lacksMemory && one.configuration.pipelineParallelSize == pipeline.first;
        }))
      lacking.push_back(pipeline);
  tryOtherShardings(*function, tensorParallelSize, lacking);
  return Error::success();
}

/// Tries other shardings for pipelines that lack memory with `function`.
void MeshSearch::tryOtherShardings(mlir::func::FuncOp function, uint32_t tensorParallelSize,
                                   const Pipelines &pipelines) {
  // Fewer devices leave less room than the most; by what training holds no sharding goes.
  for (const auto &pipeline : memoryDecidesReplication() ? pipelines : Pipelines())
    if (auto own = shard(someOf(pipeline, tensorParallelSize), /*mayReplicateWeights=*/true); !own)
      consumeError(own.takeError());
    else if (*own != function)
      tryAgain(*own, {pipeline});
  if (pipelines.empty())
    return;
  if (auto smallest = shard(someOf(pipelines.back(), tensorParallelSize), /*mayReplicateWeights=*/false))
    tryAgain(*smallest, pipelines);
  else
    consumeError(smallest.takeError());
}

static bool needsLess(const Estimate &one, const Estimate &other) {
  return one.shortage && (!other.shortage || one.shortage->bytes < other.shortage->bytes);
}

/// Tries pipelines that lack memory with replicated weights again, with more weights split, as PlanMaker
/// does.
void MeshSearch::tryAgain(mlir::func::FuncOp function, const Pipelines &pipelines) {
  triesAgain = true;
  const std::vector<Estimate> all = searchPipelines(function, requestFor(function, pipelines));
  triesAgain = false;
  for (const Estimate &one : all) {
    auto known = llvm::find_if(
        estimates, [&](const Estimate &other) { return other.configuration == one.configuration; });
    const bool isKnown = known != estimates.end();
    if (isKnown ? !known->lacksMemory : !one.isUsable() && !one.refitLowerBound)
      continue;
    Estimate &place = isKnown ? *known : estimates.emplace_back(one);
    if (one.isUsable() && (!place.obstacle.empty() || one.seconds < place.seconds))
      place = one;
    // Training makes no plan that would tell more.
    else if (!shape.search->training.empty() && !place.obstacle.empty() &&
             (one.isLowerBound || needsLess(one, place)))
      place = one;
    else if (const auto most = one.isLowerBound ? std::optional(one.seconds) : one.refitLowerBound;
             most && !place.obstacle.empty())
      place.refitLowerBound = std::min(place.refitLowerBound.value_or(*most), *most);
    place.lacksMemory = true;
  }
}

std::vector<std::string> MeshSearch::notesOn(const Estimate &chosen) const {
  std::vector<std::string> notes = noteUnused(estimates, chosen, shape.search->devices);
  llvm::append_range(notes, watch.notes(estimates));
  return notes;
}

/// The configuration that needs the least memory, and how much; nothing if anything else than memory is
/// short.
std::optional<MeshSearch::LeastMemory> MeshSearch::leastMemory() {
  // Those that were estimated to fit were made, and have more in them than estimates know.
  auto lacks = [](const Estimate &one) { return one.lacksMemory || one.obstacle.empty(); };
  if (!memoryDecidesReplication() || watch.isInterrupted())
    return std::nullopt;
  triesAllMicrobatches = true;
  tried.clear();
  slowest = best = std::numeric_limits<double>::infinity();
  if (auto error = evaluateAll()) {
    consumeError(std::move(error));
    return std::nullopt;
  }
  std::vector<std::pair<int64_t, Configuration>> bounds;
  for (const Estimate &one : estimates)
    // Interleaved stages hold as much as their neighbours do.
    if (lacks(one) && one.configuration.stagesPerRank == shape.search->stagesPerRank.front())
      bounds.push_back({maker.necessaryMemory(shapeOf(one.configuration)), one.configuration});
  llvm::stable_sort(bounds, llvm::less_first());
  std::optional<LeastMemory> least;
  for (const auto &[bound, configuration] : bounds) {
    if (least && bound >= least->second.bytes)
      break;
    if (const auto bytes = maker.leastMemory(shapeOf(configuration));
        bytes && (!least || bytes->bytes < least->second.bytes))
      least = {configuration, *bytes};
  }
  if (least)
    least->second.bytes = std::max(least->second.bytes, maker.sufficientMemory(shapeOf(least->first)));
  return least;
}

Error MeshSearch::noneFits(const std::optional<LeastMemory> &least) {
  if (watch.isInterrupted())
    return llvm::createStringError(
        options.model + ": interrupted before a mesh was found that can be used; let it search longer");
  if (!least || least->second.bytes <= least->second.budget)
    return noUsableMeshError(estimates, options.model, shape);
  return llvm::createStringError(
      formatv("{0}: no mesh of {1} device{2} keeps within {3}; {4} takes least: {5}", options.model,
              shape.search->devices, shape.search->devices == 1 ? "" : "s", memoryLimitsText(shape),
              meshOf(least->first), remedyForMemory(shape, least->second.bytes))
          .str());
}

/// Whether others were compared with an estimate that did not hold, and only bounded; then these are to be
/// estimated.
bool MeshSearch::mustLookAgain() {
  double known = fastestSeconds;
  for (const Estimate &one : estimates)
    if (one.isUsable() && !isTried(one.configuration))
      known = std::min(known, one.seconds);
  auto mayBeFaster = [&](const Estimate &one) { return one.isLowerBound && one.seconds < known; };
  if (watch.isInterrupted() || llvm::none_of(estimates, mayBeFaster))
    return false;
  // Known results must be found again.
  slowest = best = known * (1 + 1e-9);
  return true;
}

bool MeshSearch::isTried(const Configuration &configuration) const {
  return llvm::any_of(tried, [&](const Tried &one) { return one.configuration == configuration; });
}

void MeshSearch::applyTried() {
  for (const Tried &one : tried) {
    auto known = llvm::find_if(
        estimates, [&](const Estimate &other) { return other.configuration == one.configuration; });
    Estimate &estimate = known == estimates.end() ? estimates.emplace_back() : *known;
    estimate.configuration = one.configuration;
    estimate.obstacle = one.obstacle;
    estimate.refitLowerBound = std::nullopt;
    if (!one.obstacle.empty())
      continue;
    estimate.seconds = one.seconds;
    estimate.isLowerBound = false;
  }
  sort();
}

/// The fastest estimate, or else one that is not known to lack memory, if it may beat those that were made.
const Estimate *MeshSearch::nextToMake() const {
  const Estimate *next = nullptr;
  double seconds = fastestSeconds;
  for (bool areUsable : {true, false}) {
    for (const Estimate &one : estimates) {
      const std::optional<double> own = !areUsable       ? one.refitLowerBound
                                        : one.isUsable() ? std::optional(one.seconds)
                                                         : std::nullopt;
      if (!own || *own >= seconds || isTried(one.configuration))
        continue;
      next = &one;
      seconds = *own;
    }
    if (next)
      return next;
  }
  return nullptr;
}

void MeshSearch::make(const Estimate &estimate, bool isLast) {
  Tried &result = tried.emplace_back(Tried{estimate.configuration, estimate.seconds, ""});
  ChosenMesh made{shapeOf(estimate.configuration), nullptr, {}};
  CancellationScope ending = watch.making(estimate.configuration);
  auto plan = isLast ? maker.make(made.shape) : maker.makeWithin(made.shape, estimate.lacksMemory);
  if (auto error = std::move(plan).moveInto(made.plan)) {
    result.obstacle = toString(std::move(error));
    return;
  }
  if (!made.plan) {
    result.obstacle = memoryShortageReason(made.shape);
    return;
  }
  auto forecast = forecastOf(*made.plan, options.model);
  if (!forecast) {
    result.obstacle = toString(forecast.takeError());
    return;
  }
  // An estimate is of all signatures, a forecast of the first alone.
  const double seconds = made.plan->signatures.size() > 1 ? estimate.seconds : forecast->simulation.seconds;
  // A plan that was cut again, or is slower than estimated, is compared with the next estimate.
  if (maker.wasRecut() || estimate.lacksMemory || seconds > estimate.seconds * (1 + 1e-9))
    result.seconds = seconds;
  if (seconds >= fastestSeconds)
    return;
  fastest = std::move(made);
  fastestSeconds = seconds;
  fastestConfiguration = result.configuration;
}

Expected<ChosenMesh> MeshSearch::choose() {
  while (const Estimate *next = nextToMake()) {
    make(*next);
    if (fastest && watch.isInterrupted())
      break;
    applyTried();
    if (!mustLookAgain())
      continue;
    if (auto error = evaluateAll())
      return error;
    applyTried();
  }
  if (!fastest) {
    const auto least = leastMemory();
    // Devices with the memory that errors name must suffice.
    if (least && least->second.bytes <= least->second.budget)
      make(*llvm::find_if(estimates, [&](const Estimate &one) { return one.configuration == least->first; }),
           /*isLast=*/true);
    if (!fastest)
      return noneFits(least);
  }
  applyTried();
  const Estimate &chosen = *llvm::find_if(
      estimates, [&](const Estimate &one) { return one.configuration == fastestConfiguration; });
  fastest->plan->candidates = meshCandidates(chosen, estimates, options.model);
  fastest->notes = notesOn(chosen);
  return std::move(*fastest);
}

Expected<TrainingForecast> MeshSearch::chooseTraining() {
  const Estimate &best = estimates.front();
  if (!best.isUsable())
    return noneFits(std::nullopt);
  const Configuration &it = best.configuration;
  TrainingForecast result{it, {}, {}, {}, {}};
  CancellationScope ending = watch.making(it);
  const PipelineSearchRequest request =
      requestFor(best.function, {{it.pipelineParallelSize, it.dataParallelSize}});
  if (auto error = forecastPipeline(request, best).moveInto(result.pipeline))
    return error;
  for (uint32_t device = 0; device < it.devices(); ++device)
    result.devices.push_back(machine.devices[device].name);
  if (estimates.size() > 1)
    result.candidates = meshCandidates(best, estimates, options.model);
  result.notes = notesOn(best);
  return result;
}

/// Evaluates everything that is open, with tensor-parallel groups within nodes or with the others.
Error MeshSearch::evaluateMeshes(bool acrossNodes) {
  const MeshSearchSpace &space = *shape.search;
  std::vector<std::pair<uint32_t, Pipelines>> parts;
  size_t all = 0;
  auto isTried = [&](uint32_t count, std::optional<uint32_t> fixed) {
    return fixed ? count == *fixed : space.devices % count == 0;
  };
  for (uint32_t tensorParallelSize = 1;
       tensorParallelSize <= std::min<uint32_t>(space.devices, kMaxTensorParallelSize);
       ++tensorParallelSize) {
    Pipelines pipelines;
    for (uint32_t count = 1; count <= space.devices / tensorParallelSize; ++count)
      for (uint32_t side = 1; side <= space.devices / tensorParallelSize / count; ++side)
        if (isTried(count, space.pipelineParallelSize) && isTried(side, space.dataParallelSize))
          pipelines.push_back({count, side});
    // Sharding rules of the user imply more than one tensor-parallel rank.
    const bool isWanted = tensorParallelSize > 1 || shape.shard.empty();
    if (!pipelines.empty() && isWanted && isTried(tensorParallelSize, space.tensorParallelSize) &&
        machine.crossesNodes(tensorParallelSize) == acrossNodes) {
      all += pipelines.size();
      parts.push_back({tensorParallelSize, std::move(pipelines)});
    }
  }
  watch.begin(all);
  for (auto &[tensorParallelSize, pipelines] : parts)
    if (auto error = tryTensorRanks(tensorParallelSize, pipelines))
      return error;
  return Error::success();
}

Error MeshSearch::evaluateAll() {
  const MeshSearchSpace &space = *shape.search;
  if (auto error = (options.machine.empty() ? Expected<Machine>(Machine::cpu(space.devices))
                                            : Machine::load(options.machine))
                       .moveInto(machine))
    return error;
  if (shape.memoryGiven)
    for (DeviceSpec &device : machine.devices)
      device.memoryBytes = shape.memoryGiven;
  estimates.clear();
  if (auto error = evaluateMeshes(/*acrossNodes=*/false))
    return error;
  // Across nodes each sum of a tensor-parallel group is many times slower: only if nothing else is left.
  if (llvm::none_of(estimates, [](const Estimate &one) { return one.obstacle.empty(); }))
    if (auto error = evaluateMeshes(/*acrossNodes=*/true))
      return error;
  if (estimates.empty())
    return wrongUsage("--mesh " + options.mesh + ": found " + llvm::Twine(space.devices) + " device" +
                      (space.devices == 1 ? "" : "s") +
                      ", expected more for this mesh; use --devices or --machine");
  sort();
  return Error::success();
}

void MeshSearch::sort() {
  llvm::stable_sort(estimates, [](const Estimate &a, const Estimate &b) {
    auto keyOf = [](const Estimate &one) {
      return std::tuple(!one.obstacle.empty(), one.isLowerBound, one.seconds);
    };
    return keyOf(a) < keyOf(b);
  });
}

Expected<ChosenMesh> searchMesh(PlanMaker &maker, const CompileOptions &options, const PipelineShape &shape) {
  MeshSearch search(maker, options, shape);
  if (auto error = search.evaluateAll())
    return error;
  return search.choose();
}

Expected<TrainingForecast> searchTraining(PlanMaker &maker, const CompileOptions &options,
                                          const PipelineShape &shape) {
  MeshSearch search(maker, options, shape);
  if (auto error = search.evaluateAll())
    return error;
  return search.chooseTraining();
}

} // namespace cleave
