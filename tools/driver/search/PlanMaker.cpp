//===- PlanMaker.cpp - Makes plans of one model ---------------------------===//
#include "tools/driver/search/PlanMaker.h"
#include "codegen/EmitPlan.h"
#include "codegen/plan/PlanQueries.h"
#include "ir/NearestName.h"
#include "ir/OperatorDialect.h"
#include "ir/ParkedObserves.h"
#include "partitioner/cutting/StageStarts.h"
#include "partitioner/graph/SearchLimits.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "tools/driver/base/DiagnosticCollector.h"
#include "tools/driver/base/Forecast.h"
#include "tools/driver/base/PassPipeline.h"
#include "tools/driver/search/MeshCandidates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The module path most similar to a pattern, else some of those that there are.
static std::string suggestion(const plan::Plan &plan, StringRef pattern) {
  constexpr size_t kShown = 4;
  std::vector<std::string> paths;
  llvm::SetVector<StringRef> outermost;
  auto add = [&](StringRef path) {
    if (!path.empty())
      outermost.insert(path.split('.').first);
    for (; !path.empty(); path = path.contains('.') ? path.rsplit('.').first : "")
      paths.push_back(path.str());
  };
  for (const auto &point : plan.capture_points)
    add(point->path);
  for (StringRef path : plan.paths)
    add(path);
  if (std::string meant = didYouMean(pattern, paths); !meant.empty() || outermost.empty())
    return meant;
  const size_t others = outermost.size() - std::min(outermost.size(), kShown);
  return "; there are " + llvm::join(outermost.getArrayRef().take_front(kShown), ", ") +
         (others ? " and " + std::to_string(others) + " more" : "");
}

/// A pattern that matches nothing is a typo, or of modules that control flow calls.
Error PlanMaker::checkCapturePoints(const plan::Plan &plan) const {
  for (const std::string &text : options.capturePoints) {
    auto pattern = llvm::GlobPattern::create(text);
    auto ofAllCalls = llvm::GlobPattern::create(withoutCalls(text));
    auto matches = [&](auto &glob, const std::string &path) { return glob && glob->match(path); };
    const bool isFound = llvm::any_of(plan.capture_points, [&](auto &point) {
      return matches(pattern, point->path) || matches(ofAllCalls, point->path);
    });
    consumeError(pattern.takeError());
    consumeError(ofAllCalls.takeError());
    if (!isFound)
      return llvm::createStringError(
          "--capture-points " + text +
          ": matches no module; give module paths as the model's source has them, with * and ?" +
          suggestion(plan, text));
  }
  return Error::success();
}

static bool isLimited(const PipelineShape &shape) {
  return llvm::any_of(shape.memoryOfRanks(), [](const auto &bytes) { return bytes.has_value(); });
}

/// Peak memory of each rank of the plan, including values that wait for stages in between; nothing if the
/// plan does not tell.
static std::optional<std::vector<int64_t>> peaksOf(const plan::Plan &plan) {
  auto forecast = forecastOf(plan, "the plan");
  if (!forecast) {
    consumeError(forecast.takeError());
    return std::nullopt;
  }
  std::vector<int64_t> peaks;
  for (const DeviceForecast &device : forecast->devices)
    peaks.push_back(device.peakBytes);
  return peaks;
}

/// The memory that a plan's ranks lack, if devices have too little.
static std::optional<MemoryShortage> shortageOf(const plan::Plan &plan, const PipelineShape &shape) {
  const auto peaks = peaksOf(plan);
  return peaks ? shortageOf(*peaks, shape.memoryOfRanks()) : std::nullopt;
}

/// Runs `passes`; `done` passes ran before.
Error PlanMaker::run(mlir::ModuleOp module, const std::string &passes, unsigned done) {
  DiagnosticCollector diagnostics(context);
  auto begins = [&](StringRef pass) {
    if (options.progress)
      options.progress(("splitting " + options.model + ": " + pass).str(), std::nullopt);
  };
  if (auto error = runPassPipeline(module, passes, {options.emitIr, done}, begins)) {
    if (!diagnostics.hasErrors())
      return error;
    // The pipeline's own error only says that a pass failed.
    consumeError(std::move(error));
    return diagnostics.takeError(options.model);
  }
  return Error::success();
}

/// The first function, which has what passes say of all of them.
static mlir::func::FuncOp functionOf(mlir::ModuleOp module) {
  return *module.getOps<mlir::func::FuncOp>().begin();
}

/// \param limits  null for a decision that holds for any.
static LimitRange rangeOf(mlir::DenseI64ArrayAttr limits) {
  return limits ? LimitRange{limits[0], limits[1]} : LimitRange();
}

static LimitRange shardingLimitsOf(mlir::ModuleOp module) {
  auto decision = decisionOf<ShardingDecisionAttr>(functionOf(module));
  return decision ? rangeOf(decision.getMemoryLimitRange()) : LimitRange();
}

static LimitRange cutLimitsOf(mlir::ModuleOp module) {
  auto cut = decisionOf<CutAttr>(functionOf(module));
  return cut ? rangeOf(cut.getWeightLimitRange()) : LimitRange();
}

static PipelineShape withoutLimit(PipelineShape shape) {
  shape.memoryOfDevices.clear();
  shape.memoryGiven.reset();
  return shape;
}

/// True if both copies of a module have the same decisions, for whatever limits.
static bool areDecidedAlike(mlir::ModuleOp one, mlir::ModuleOp other) {
  auto attributesOf = [](mlir::ModuleOp module) {
    std::vector<mlir::DictionaryAttr> all;
    for (auto function : module.getOps<mlir::func::FuncOp>()) {
      mlir::NamedAttrList ofFunction(function->getAttrs());
      if (auto decision = decisionOf<ShardingDecisionAttr>(function))
        ofFunction.set(ShardingDecisionAttr::name,
                       ShardingDecisionAttr::get(module.getContext(), decision.getGroups(),
                                                 decision.getSeconds(),
                                                 /*memory_limits=*/nullptr));
      all.push_back(ofFunction.getDictionary(module.getContext()));
      for (ParamOp param : function.getOps<ParamOp>())
        all.push_back(param->getAttrDictionary());
    }
    return all;
  };
  return attributesOf(one) == attributesOf(other);
}

/// \param before  what the same passes have made of the module, but for limits: then they are those that
/// decide
///                by a limit, which change attributes alone.
Expected<PlanMaker::Sharded> PlanMaker::runStep(mlir::ModuleOp module, const std::string &passes,
                                                bool isLimited, unsigned done,
                                                llvm::ArrayRef<Sharded> before) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  if (auto error = run(*copy, passes, done))
    return error;
  const LimitRange limits = isLimited ? shardingLimitsOf(*copy) : LimitRange();
  for (const Sharded &one : before)
    if (areDecidedAlike(one.module, *copy))
      return Sharded{nullptr, one.module, isLimited, limits};
  const mlir::ModuleOp made = *copy;
  return Sharded{std::move(copy), made, isLimited, limits};
}

Expected<mlir::ModuleOp> PlanMaker::runSharding(const PipelineShape &shape) {
  const std::optional<int64_t> limit = shardingMemory(shape);
  const std::vector<std::string> steps = shardingSteps(options, shape),
                                 names = shardingSteps(options, withoutLimit(shape));
  mlir::ModuleOp module = source.model.module.get();
  unsigned done = 0;
  for (auto [passes, name] : llvm::zip(steps, names)) {
    const bool isLimited = passes != name;
    std::vector<Sharded> &all = sharded[{module, name}];
    auto known = llvm::find_if(
        all, [&](const Sharded &one) { return one.isLimited == isLimited && one.limits.contains(limit); });
    if (known == all.end()) {
      auto made = runStep(module, passes, isLimited, done, all);
      if (!made)
        return made.takeError();
      all.push_back(std::move(*made));
      known = std::prev(all.end());
    }
    module = known->module;
    done += countPasses(passes);
  }
  return module;
}

Expected<mlir::func::FuncOp> PlanMaker::shard(const PipelineShape &shape) {
  auto module = runSharding(shape);
  if (!module)
    return module.takeError();
  auto known = mergedModules.find(*module);
  if (known == mergedModules.end()) {
    DiagnosticCollector diagnostics(context);
    mlir::OwningOpRef<mlir::ModuleOp> copy = module->clone();
    eraseObserves(*copy);
    auto merged = MergedSignatures::of(*copy);
    if (mlir::failed(merged))
      return diagnostics.takeError(options.model);
    known = mergedModules.try_emplace(*module, Searched{std::move(copy), std::move(**merged)}).first;
    signatures[known->second.merged.get()] = known->second.merged.getFunctions();
  }
  return known->second.merged.get();
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::runPasses(const PipelineShape &shape) {
  auto module = runSharding(shape);
  if (!module)
    return module.takeError();
  auto plan = cutAndEmit(*module, shape);
  if (!plan)
    return plan;
  isAccepted = true;
  // The plan names the machine file it was made for, without its path.
  CompileOptions named = options;
  named.machine = llvm::sys::path::filename(options.machine).str();
  (*plan)->pass_pipeline = passPipelineOf(named, shape);
  if (shape.memoryGiven)
    (*plan)->memory_limits.assign(shape.rankCount(), *shape.memoryGiven);
  if (auto error = checkCapturePoints(**plan))
    return error;
  return plan;
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::cutAndEmit(mlir::ModuleOp module,
                                                            const PipelineShape &shape) {
  const std::vector<std::optional<int64_t>> memory = shape.memoryOfRanks();
  // Weight limits replace the devices' limits, and are hardly ever repeated. A cut's recorded limits apply to
  // a limit that all devices share.
  const bool isKept = shape.weightLimits.empty() && llvm::all_equal(memory);
  std::vector<Emitted> &all = emitted[{module, cuttingPasses(options, withoutLimit(shape))}];
  for (const Emitted &known : all)
    if (isKept && known.limits.contains(memory.front()))
      return std::make_unique<plan::Plan>(*known.plan);
  mlir::OwningOpRef<mlir::ModuleOp> split = module.clone();
  if (auto error = run(*split, cuttingPasses(options, shape),
                       countPasses(llvm::join(shardingSteps(options, shape), ","))))
    return error;
  DiagnosticCollector diagnostics(context);
  auto plan = emitPlan(*split, {"cleave " CLEAVE_VERSION, source.fingerprint, /*pipeline=*/""});
  if (mlir::failed(plan))
    return diagnostics.takeError(options.model);
  // The result of an interrupted search is not reproducible.
  if (isKept && !CancellationScope::isRequested())
    all.push_back({std::make_unique<plan::Plan>(**plan), cutLimitsOf(*split)});
  return std::move(*plan);
}

//===- Where memory is short ----------------------------------------------===//

Expected<Machine> PlanMaker::machineOf(uint32_t devices) const {
  return options.machine.empty() ? Expected<Machine>(Machine::cpu(devices)) : Machine::load(options.machine);
}

Expected<PlanMaker::CutProblem> PlanMaker::cutProblem(const PipelineShape &shape, uint32_t microbatches) {
  auto function = shard(shape);
  if (!function)
    return function.takeError();
  auto machine = machineOf(shape.rankCount());
  if (!machine)
    return machine.takeError();
  if (shape.memoryGiven)
    for (DeviceSpec &device : machine->devices)
      device.memoryBytes = shape.memoryGiven;
  const PipelineDeviceGroups groups(*machine, shape.pipelineParallelSize, shape.devicesPerPipelineRank(),
                                    shape.tensorParallelSize);
  PipelineCache &known = pipelineCacheOf(*function);
  auto [model, cuts] = known.graphOf(*function, groups.kinds, shape.stages);
  CutProblem result{model,
                    cuts,
                    {},
                    known.memoryOf(*function, source.batch, microbatches, *machine, shape.dataParallelSize),
                    groups.memoryOfRanks(),
                    groups.memoryOfRanks()};
  if (result.memory)
    result.upperBudgets = largestBudgets(*result.memory, *machine, shape.pipelineParallelSize,
                                         shape.tensorParallelSize, shape.dataParallelSize);
  result.request.stages = groups.stageDevices(shape.stages);
  result.request.stagesPerRank = shape.stages / shape.pipelineParallelSize;
  if (auto error = stageStartsOf(result.model, options.stageBefore).moveInto(result.request.stageStarts))
    return error;
  return result;
}

/// True if ranks have enough memory for the cut that the shape asks for, judged by their largest devices.
bool PlanMaker::fits(const CutProblem &program, const PipelineShape &shape) {
  CutRequest request = program.request;
  for (auto [stage, limit] : llvm::zip(request.stages, shape.weightLimits))
    stage.weightLimit = limit;
  if (shape.cutWork)
    request.limits = *shape.cutWork ? SearchLimits{request.limits.downsets, *shape.cutWork} : kProgramOrder;
  auto cut = program.cuts.cut(program.model.graph, request);
  if (cut)
    return !shortageOf(program.memory->of(program.model, (*cut)->stageOf, shape.pipelineParallelSize),
                       program.upperBudgets);
  consumeError(cut.takeError());
  return false;
}

/// Cuts with room for memory besides weights: the fastest with such limits, else the one along program order.
Expected<std::unique_ptr<plan::Plan>> PlanMaker::recut(const PipelineShape &shape, uint32_t microbatches,
                                                       bool triesFastest) {
  auto program = cutProblem(shape, microbatches);
  if (!program)
    return program.takeError();
  if (!program->memory || !mayFit(*program->memory, program->model, program->upperBudgets))
    return nullptr;
  std::vector<PipelineShape> tried;
  if (triesFastest)
    tried.push_back(shape);
  // First as if all tensor-parallel ranks held as much as the fullest one.
  std::vector<MemoryBudgets> budgets{program->budgets};
  if (program->upperBudgets != program->budgets)
    budgets.push_back(program->upperBudgets);
  for (const MemoryBudgets &own : budgets) {
    const MemoryConstrainedCutter fitting(program->model, program->request, own, *program->memory,
                                          program->cuts);
    const MemoryConstrainedCutter::Fitted fitted = fitting.fit();
    for (uint64_t work : {kWeightLimitedWork, uint64_t(0)}) {
      PipelineShape &next = tried.emplace_back(shape);
      next.weightLimits = fitted.weightLimits;
      next.cutWork = work;
    }
  }
  for (const PipelineShape &next : tried) {
    if (!fits(*program, next))
      continue;
    auto plan = runPasses(next);
    isRecut = !next.weightLimits.empty();
    if (!plan || !shortageOf(**plan, next))
      return plan;
  }
  return nullptr;
}

/// Cuts again by the memory of stages besides weights, if the fastest cut exceeds a device; null if no cut is
/// found.
Expected<std::unique_ptr<plan::Plan>> PlanMaker::fitCut(const PipelineShape &shape, bool isTight) {
  isRecut = false;
  if (isTight)
    return recut(shape, shape.microbatches, /*triesFastest=*/true);
  auto fastest = runPasses(shape);
  if (!isLimited(shape) || (fastest && !shortageOf(**fastest, shape)))
    return fastest;
  if (!fastest) {
    // Whether memory was the reason or not.
    consumeError(fastest.takeError());
    PipelineShape unlimited = shape;
    unlimited.weightLimits.assign(shape.stages, std::numeric_limits<int64_t>::max());
    fastest = runPasses(unlimited);
    if (!fastest)
      return fastest;
  }
  microbatchesMade = (*fastest)->schedules.front()->microbatches;
  return recut(shape, microbatchesMade, /*triesFastest=*/false);
}

static double secondsOf(const plan::Plan &plan) {
  auto forecast = forecastOf(plan, "the plan");
  if (forecast)
    return forecast->simulation.seconds;
  consumeError(forecast.takeError());
  return std::numeric_limits<double>::infinity();
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::makeWithin(PipelineShape shape, bool isTight) {
  auto first = fitCut(shape, isTight);
  if (!first || (*first && !isRecut) || !isLimited(shape) || shape.tensorParallelSize == 1)
    return first;
  // The fastest cut exceeds memory with the weights that stayed whole.
  shape.mayReplicateWeights = false;
  auto second = fitCut(shape, isTight || shape.microbatches > 0);
  if (!*first)
    return second;
  if (second && *second && secondsOf(**second) < secondsOf(**first))
    return second;
  consumeError(second.takeError());
  isRecut = true;
  return first;
}

/// Compared with the memory of the smallest device.
static std::optional<MemoryShortage>
shortageBy(const std::optional<MemoryConstrainedCutter::MinBudget> &least, const PipelineShape &shape) {
  if (!least)
    return std::nullopt;
  const MemoryBudgets memory = shape.memoryOfRanks();
  std::optional<MemoryShortage> result;
  for (uint32_t rank = 0; rank < memory.size(); ++rank)
    if (memory[rank] && (!result || *memory[rank] < result->budget))
      result = MemoryShortage{rank, least->bytes, *memory[rank]};
  return result;
}

/// The cut with the least memory per device, as if devices had enough.
Expected<std::unique_ptr<plan::Plan>>
PlanMaker::makeSmallest(PipelineShape shape, const MemoryConstrainedCutter::MinBudget &least) {
  shape.mayReplicateWeights = false;
  shape.weightLimits = least.fitted.weightLimits;
  shape.cutWork = least.fitted.work;
  auto plan = runPasses(shape);
  isRecut = true;
  return plan;
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::make(PipelineShape shape) {
  auto plan = makeWithin(shape, /*isTight=*/false);
  if (!plan || *plan)
    return plan;
  const auto least = leastCut(shape);
  auto shortage = shortageBy(least, shape);
  if (!shortage)
    return tooLittleMemory(shape, shortage);
  // So that devices with the memory that errors name suffice.
  const bool hasRoom = shortage->bytes <= shortage->budget;
  plan = makeSmallest(shape, *least);
  const auto held = plan ? shortageOf(**plan, shape) : std::nullopt;
  if (hasRoom && !held)
    return plan;
  consumeError(plan.takeError());
  if (held && held->bytes > shortage->bytes)
    shortage = held;
  return tooLittleMemory(shape, shortage);
}

Error PlanMaker::tooLittleMemory(const PipelineShape &shape,
                                 const std::optional<MemoryShortage> &least) const {
  if (!least)
    return llvm::createStringError(
        options.model +
        ": no cut was found that keeps within the memory of each device; use more devices, or larger ones");
  const std::string who =
      llvm::all_equal(shape.memoryOfRanks()) ? "some rank" : "rank " + std::to_string(least->rank);
  return llvm::createStringError(
      llvm::formatv("{0}: {1} takes {2} bytes at its peak, its device has {3}; {4}", options.model, who,
                    least->bytes, least->budget, remedyForMemory(shape, least->bytes))
          .str());
}

/// With the fastest sharding, which is the same for all limits.
Expected<PlanMaker::CutProblem> PlanMaker::smallest(PipelineShape shape) {
  shape.mayReplicateWeights = false;
  auto program = cutProblem(shape, shape.microbatches ? shape.microbatches : microbatchesMade);
  if (program && !program->memory)
    return llvm::createStringError("what its cuts hold is not known");
  return program;
}

std::optional<MemoryConstrainedCutter::MinBudget> PlanMaker::leastCut(const PipelineShape &shape) {
  auto program = smallest(shape);
  if (auto error = program.takeError()) {
    consumeError(std::move(error));
    return std::nullopt;
  }
  isAccepted = true;
  return MemoryConstrainedCutter(program->model, program->request, program->budgets, *program->memory,
                                 program->cuts)
      .minBudget();
}

std::optional<MemoryShortage> PlanMaker::leastMemory(const PipelineShape &shape) {
  return shortageBy(leastCut(shape), shape);
}

int64_t PlanMaker::sufficientMemory(const PipelineShape &shape) {
  const auto least = leastCut(shape);
  if (!least)
    return 0;
  auto plan = makeSmallest(shape, *least);
  if (!plan) {
    consumeError(plan.takeError());
    return least->bytes;
  }
  const auto peaks = peaksOf(**plan);
  return peaks ? std::max(least->bytes, *llvm::max_element(*peaks)) : least->bytes;
}

int64_t PlanMaker::necessaryMemory(const PipelineShape &shape) {
  auto program = smallest(shape);
  if (program)
    return MemoryConstrainedCutter(program->model, program->request, program->budgets, *program->memory,
                                   program->cuts)
        .budgetLowerBound();
  consumeError(program.takeError());
  return 0;
}

} // namespace cleave
