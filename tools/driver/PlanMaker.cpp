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

/// The rank that holds most at its peak, and the bytes.
static std::pair<uint32_t, int64_t> mostNeeded(const plan::Plan &plan) {
  const std::vector<Need> needs = needsOfRanks(plan);
  auto most = llvm::max_element(needs, [](const Need &a, const Need &b) { return a.bytes() < b.bytes(); });
  return {most - needs.begin(), most->bytes()};
}

/// What each stage may hold of weights if it holds beside them what the plan predicts; never more than before.
static std::vector<int64_t> roomForWeights(const plan::Plan &plan, const PipelineShape &shape) {
  std::vector<int64_t> room(plan.stages.size(), *shape.memoryBytes);
  const std::vector<Need> needs = needsOfRanks(plan);
  for (auto [stage, bytes] : llvm::zip(plan.stages, room)) {
    for (uint32_t rank : stage->ranks)
      bytes = std::min(bytes, *shape.memoryBytes - needs[rank].others);
    bytes = std::max<int64_t>(bytes, 0) / (shape.stages / shape.ranks);
  }
  for (auto [bytes, before] : llvm::zip(room, shape.weightLimits))
    bytes = std::min(bytes, before);
  return room;
}

/// What the devices are to hold at their peaks has room in them.
Error PlanMaker::checkMemory(const plan::Plan &plan, const PipelineShape &shape) const {
  auto [rank, bytes] = mostNeeded(plan);
  if (!shape.memoryBytes || bytes <= *shape.memoryBytes)
    return Error::success();
  return llvm::createStringError(
      llvm::formatv("{0}: rank {1} takes {2} bytes at its peak, its device has {3}; use more devices, or "
                    "devices with memory for {2}",
                    options.model, rank, bytes, *shape.memoryBytes)
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
  shape.memoryBytes = std::nullopt;
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
  if (shape.isMemoryGiven)
    (*plan)->memory_limits.assign(size_t(shape.ranks) * shape.tensorRanks, *shape.memoryBytes);
  if (auto error = checkCapturePoints(**plan))
    return error;
  return plan;
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::cutAndEmit(mlir::ModuleOp module, const PipelineShape &shape) {
  // Limits of weights take the place of the devices', and hardly come twice.
  const bool isKept = shape.weightLimits.empty();
  std::vector<Emitted> &all = emitted[{module, cuttingPasses(options, withoutLimit(shape))}];
  for (const Emitted &known : all)
    if (isKept && known.limits.contains(shape.memoryBytes))
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
  constexpr int kMostCuts = 8;
  auto fastest = runPasses(shape);
  if (fastest && !shape.memoryBytes)
    return {std::move(*fastest), Error::success()};
  if (!shape.memoryBytes)
    return {nullptr, fastest.takeError()};
  if (fastest && mostNeeded(**fastest).second <= *shape.memoryBytes)
    return {std::move(*fastest), Error::success()};
  consumeError(fastest.takeError());
  // Cuts that need less and less, whatever the devices have: the need that an error names is one that will do.
  PipelineShape next = shape;
  next.weightLimits.assign(shape.stages, std::numeric_limits<int64_t>::max());
  std::unique_ptr<plan::Plan> best;
  for (int cut = 0; cut < kMostCuts; ++cut) {
    auto plan = runPasses(next);
    if (!plan && !best)
      return {nullptr, plan.takeError()};
    if (!plan || (best && mostNeeded(**plan).second >= mostNeeded(*best).second)) {
      consumeError(plan.takeError());
      break;
    }
    best = std::move(*plan);
    const int64_t need = mostNeeded(*best).second;
    if (need <= *shape.memoryBytes)
      break;
    next.memoryBytes = need - 1;
    next.weightLimits = roomForWeights(*best, next);
    next.memoryBytes = shape.memoryBytes;
  }
  auto tooLarge = checkMemory(*best, shape);
  return {std::move(best), std::move(tooLarge)};
}

Expected<std::unique_ptr<plan::Plan>> PlanMaker::make(PipelineShape shape) {
  Made first = fitCut(shape);
  if (!first.tooLarge)
    return std::move(first.plan);
  if (!shape.memoryBytes || shape.tensorRanks == 1)
    return std::move(first.tooLarge);
  // What stayed whole where there seemed to be room was too much.
  shape.weighsMemory = false;
  Made second = fitCut(shape);
  // Gathers may take more than what they save; the smaller need is said.
  if (second.tooLarge && first.plan && (!second.plan || mostNeeded(*first.plan).second < mostNeeded(*second.plan).second))
    std::swap(first, second);
  consumeError(std::move(first.tooLarge));
  if (second.tooLarge)
    return std::move(second.tooLarge);
  return std::move(second.plan);
}

} // namespace cleave
