//===- PlanMaker.cpp - The passes over one model --------------------------===//
#include "tools/driver/PlanMaker.h"
#include "codegen/EmitPlan.h"
#include "ir/NearestName.h"
#include "partitioner/SearchLimits.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "tools/driver/DiagnosticCollector.h"
#include "tools/driver/Pipeline.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

/// The module path that a pattern was probably meant to match.
static std::string suggestion(const plan::Plan &plan, StringRef pattern) {
  std::vector<std::string> paths;
  for (StringRef path : plan.paths)
    for (; !path.empty(); path = path.contains('.') ? path.rsplit('.').first : "")
      paths.push_back(path.str());
  return didYouMean(pattern, paths);
}

/// A pattern that matches nothing is a misspelt one.
Error PlanMaker::checkCapturePoints(const plan::Plan &plan) const {
  for (const std::string &text : options.capturePoints) {
    auto pattern = llvm::cantFail(llvm::GlobPattern::create(text), "readPipelineShape has checked it");
    if (llvm::none_of(plan.capture_points, [&](auto &point) { return pattern.match(point->path); }))
      return llvm::createStringError(
          "--capture-points " + text +
          ": matches no module; give module paths as the model's source has them, with * and ?" + suggestion(plan, text));
  }
  return Error::success();
}

namespace {
/// What a rank holds at its peak.
struct Need {
  int64_t weights = 0, others = 0;
  int64_t bytes() const { return weights + others; }
};
} // namespace

static std::vector<Need> needsOfRanks(const plan::Plan &plan) {
  std::vector<Need> needs(size_t(plan.mesh->pp) * plan.mesh->tp);
  for (auto &prediction : plan.predictions) {
    // Stages of one rank compute one after the other, and keep their weights.
    Need &need = needs[plan.stages[prediction->stage]->ranks[prediction->tp_rank]];
    need.weights += prediction->weight_bytes;
    need.others = std::max(need.others, prediction->peak_bytes - prediction->weight_bytes);
  }
  return needs;
}

static bool isLimited(const PipelineShape &shape) {
  return llvm::any_of(shape.memoryOfRanks(), [](const auto &bytes) { return bytes.has_value(); });
}

/// Of the plan's ranks, where devices have too little memory.
static std::optional<MemoryShortage> shortageOf(const plan::Plan &plan, const PipelineShape &shape) {
  std::vector<int64_t> bytes;
  for (const Need &need : needsOfRanks(plan))
    bytes.push_back(need.bytes());
  return shortageOf(bytes, shape.memoryOfRanks());
}

/// What each stage may hold of weights, if its ranks hold beside them what the plan predicts, and each device has what it has
/// or `least` bytes, whichever is more; never more than `before`.
static std::vector<int64_t> roomForWeights(const plan::Plan &plan, const PipelineShape &shape, int64_t least,
                                           llvm::ArrayRef<int64_t> before) {
  const std::vector<Need> needs = needsOfRanks(plan);
  const std::vector<std::optional<int64_t>> memory = shape.memoryOfRanks();
  std::vector<int64_t> room(before);
  for (auto [stage, bytes] : llvm::zip(plan.stages, room))
    for (uint32_t rank : stage->ranks)
      if (memory[rank]) {
        const int64_t own = std::max<int64_t>(std::max(*memory[rank], least) - needs[rank].others, 0);
        bytes = std::min(bytes, own / (shape.stages / shape.ranks));
      }
  return room;
}

/// What the devices are to hold at their peaks has room in them.
Error PlanMaker::checkMemory(const plan::Plan &plan, const PipelineShape &shape) const {
  const auto shortage = shortageOf(plan, shape);
  if (!shortage)
    return Error::success();
  return llvm::createStringError(
      llvm::formatv("{0}: rank {1} takes {2} bytes at its peak, its device has {3}; use more devices, or "
                    "devices with memory for {2}",
                    options.model, shortage->rank, shortage->bytes, shortage->room)
          .str());
}

/// Runs `passes`, of which `done` others were run before.
Error PlanMaker::run(mlir::ModuleOp module, const std::string &passes, unsigned done) {
  DiagnosticCollector diagnostics(context);
  auto begins = [&](StringRef pass) {
    if (options.progress)
      options.progress(("splitting " + options.model + ": " + pass).str(), std::nullopt);
  };
  if (auto error = runPipeline(module, passes, {options.emitIr, done}, begins)) {
    if (!diagnostics.hasErrors())
      return error;
    // The pipeline's own error only says that a pass failed.
    consumeError(std::move(error));
    return diagnostics.takeError(options.model);
  }
  return Error::success();
}

/// What a pass has said of them; any where it has not.
static LimitRange limitsIn(mlir::ModuleOp module, StringRef attribute) {
  auto said = (*module.getOps<mlir::func::FuncOp>().begin())->getAttrOfType<mlir::DenseI64ArrayAttr>(attribute);
  return said ? LimitRange{said[0], said[1]} : LimitRange();
}

static PipelineShape withoutLimit(PipelineShape shape) {
  shape.memoryOfDevices.clear();
  shape.memoryGiven.reset();
  return shape;
}

Expected<mlir::ModuleOp> PlanMaker::runSharding(const PipelineShape &shape) {
  const std::optional<int64_t> limit = shardingMemory(shape);
  const std::vector<std::string> steps = shardingSteps(options, shape), names = shardingSteps(options, withoutLimit(shape));
  mlir::ModuleOp module = source.model.module.get();
  std::string key;
  unsigned done = 0;
  for (auto [passes, name] : llvm::zip(steps, names)) {
    key += (passes == name ? "" : "within a limit: ") + name + ",";
    std::vector<Sharded> &all = sharded[key];
    auto known = llvm::find_if(all, [&](const Sharded &one) { return one.limits.contains(limit); });
    if (known == all.end()) {
      mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
      if (auto error = run(*copy, passes, done))
        return error;
      const LimitRange limits = limitsIn(*copy, kShardingLimitsAttr);
      all.push_back({std::move(copy), limits});
      known = std::prev(all.end());
    }
    module = *known->module;
    done += countPasses(passes);
  }
  return module;
}

Expected<mlir::func::FuncOp> PlanMaker::shard(const PipelineShape &shape) {
  auto module = runSharding(shape);
  if (!module)
    return module.takeError();
  return *module->getOps<mlir::func::FuncOp>().begin();
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::runPasses(const PipelineShape &shape) {
  auto module = runSharding(shape);
  if (!module)
    return module.takeError();
  auto plan = cutAndEmit(*module, shape);
  if (!plan)
    return plan;
  hasMade = true;
  // The plan says which machine file it was made for, not where that lay.
  CompileOptions named = options;
  named.machine = llvm::sys::path::filename(options.machine).str();
  (*plan)->pipeline = pipelineOf(named, shape);
  if (shape.memoryGiven)
    (*plan)->memory_limits.assign(size_t(shape.ranks) * shape.tensorRanks, *shape.memoryGiven);
  if (auto error = checkCapturePoints(**plan))
    return error;
  return plan;
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::cutAndEmit(mlir::ModuleOp module, const PipelineShape &shape) {
  const std::vector<std::optional<int64_t>> memory = shape.memoryOfRanks();
  // Limits of weights take the place of the devices', and hardly come twice. What a cut says of limits is for
  // one that all devices have.
  const bool isKept = shape.weightLimits.empty() && llvm::all_equal(memory);
  std::vector<Emitted> &all = emitted[{module, cuttingPasses(options, withoutLimit(shape))}];
  for (const Emitted &known : all)
    if (isKept && known.limits.contains(memory.front()))
      return std::make_unique<plan::Plan>(*known.plan);
  mlir::OwningOpRef<mlir::ModuleOp> split = module.clone();
  if (auto error = run(*split, cuttingPasses(options, shape), countPasses(llvm::join(shardingSteps(options, shape), ","))))
    return error;
  DiagnosticCollector diagnostics(context);
  auto plan = emitPlan(*split, {"cleave " CLEAVE_VERSION, source.fingerprint, /*pipeline=*/""});
  if (mlir::failed(plan))
    return diagnostics.takeError(options.model);
  // A cut that was interrupted is one of luck.
  if (isKept && !EarlyEnd::isWantedNow())
    all.push_back({std::make_unique<plan::Plan>(**plan), limitsIn(*split, kCutLimitsAttr)});
  return std::move(*plan);
}

PlanMaker::Made PlanMaker::fitCut(const PipelineShape &shape) {
  auto fastest = runPasses(shape);
  if (fastest && !shortageOf(**fastest, shape))
    return {std::move(*fastest), Error::success()};
  if (!isLimited(shape))
    return {nullptr, fastest.takeError()};
  consumeError(fastest.takeError());
  // First as if all had enough.
  PipelineShape next = shape;
  next.weightLimits.assign(shape.stages, std::numeric_limits<int64_t>::max());
  auto first = runPasses(next);
  if (!first)
    return {nullptr, first.takeError()};
  auto best = needLess(std::move(*first), std::move(next));
  auto tooLarge = checkMemory(*best, shape);
  return {std::move(best), std::move(tooLarge)};
}

std::unique_ptr<plan::Plan> PlanMaker::needLess(std::unique_ptr<plan::Plan> best, PipelineShape shape) {
  constexpr int kMostCuts = 7;
  const bool isEven = llvm::all_equal(shape.memoryOfRanks());
  std::vector<int64_t> limits = shape.weightLimits;
  // What devices were given in vain.
  int64_t tooLittle = 0;
  for (int cut = 0; cut < kMostCuts; ++cut) {
    const auto shortage = shortageOf(*best, shape);
    if (!shortage || shortage->bytes - tooLittle < 2)
      break;
    // Where devices are even, so is mostly the fastest cut, and another one's need little less.
    const int64_t wanted = isEven ? shortage->bytes - 1 : tooLittle + (shortage->bytes - tooLittle) / 2;
    shape.weightLimits = roomForWeights(*best, shape, wanted, limits);
    auto plan = runPasses(shape);
    if (const auto left = plan ? shortageOf(**plan, shape) : shortage; left && left->bytes > wanted) {
      consumeError(plan.takeError());
      tooLittle = wanted;
      continue;
    }
    best = std::move(*plan);
    limits = shape.weightLimits;
  }
  return best;
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::make(PipelineShape shape) {
  Made first = fitCut(shape);
  if (!first.tooLarge)
    return std::move(first.plan);
  if (!isLimited(shape) || shape.tensorRanks == 1)
    return std::move(first.tooLarge);
  // What stayed whole where there seemed to be room was too much.
  shape.weighsMemory = false;
  Made second = fitCut(shape);
  // Gathers may take more than what they save; the smaller need is said.
  auto bytesOf = [&](const plan::Plan &plan) { return shortageOf(plan, shape)->bytes; };
  if (second.tooLarge && first.plan && (!second.plan || bytesOf(*first.plan) < bytesOf(*second.plan)))
    std::swap(first, second);
  consumeError(std::move(first.tooLarge));
  if (second.tooLarge)
    return std::move(second.tooLarge);
  return std::move(second.plan);
}

} // namespace cleave
