//===- PassPipeline.cpp - Pass pipelines of a compilation -----------------===//
#include "tools/driver/base/PassPipeline.h"
#include "codegen/plan/files/OutputBroker.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/files/TemporaryPath.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "tools/driver/base/ModelSource.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace cleave {

/// The pass that decides which weights are split: the only one that depends on memory.
static std::string decidingPass(const CompileOptions &options, const PipelineShape &shape) {
  std::string annotate = "annotate-sharding{tp=" + std::to_string(shape.tensorParallelSize);
  if (!options.machine.empty())
    annotate += " machine=" + options.machine;
  if (shape.leavesDevices())
    annotate += " devices=" + std::to_string(shape.devices);
  if (auto memory = shardingMemory(shape))
    annotate += " memory=" + std::to_string(*memory);
  if (!shape.shard.empty())
    annotate += " shard=" + llvm::join(shape.shard, ",");
  return annotate + "}";
}

/// The passes that apply the decisions.
static std::string splittingPasses(const CompileOptions &options) {
  std::string passes =
      "propagate-sharding,insert-reshards,partition-spmd,optimize-collectives,canonicalize,cse,infer-types";
  return passes + (options.rewriteIdioms && !options.gradients
                       ? ",rewrite-idioms{only=rms-norm},cse,infer-types"
                       : "");
}

std::optional<int64_t> shardingMemory(const PipelineShape &shape) {
  if (shape.tensorParallelSize == 1 || !shape.mayReplicateWeights)
    return std::nullopt;
  uint64_t all = 0;
  const uint32_t devices = shape.devicesPerPipelineRank();
  const std::vector<std::optional<int64_t>> memory = shape.memoryOfRanks();
  for (uint32_t rank = 0; rank < shape.pipelineParallelSize; ++rank) {
    std::optional<int64_t> least;
    for (const auto &bytes : llvm::ArrayRef(memory).slice(rank * devices, devices))
      if (bytes)
        least = std::min(least.value_or(*bytes), *bytes);
    if (!least)
      return std::nullopt;
    all = llvm::SaturatingAdd<uint64_t>(all, *least);
  }
  return std::min<uint64_t>(all, INT64_MAX);
}

/// With all digits of a double.
static std::string exactly(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.17g", number);
  return text;
}

static std::string updatePasses(const UpdateOptions &options, const PipelineShape &shape) {
  std::string text = "add-optimizer{optimizer='" + options.optimizer + "'";
  if (shape.pipelineParallelSize != shape.stages)
    text += " ranks=" + std::to_string(shape.pipelineParallelSize);
  if (!options.noDecay.empty())
    text += " no-decay=" + llvm::join(options.noDecay, ",");
  if (options.clipNorm)
    text += " clip-norm=" + exactly(*options.clipNorm);
  return text + "},infer-types";
}

/// \param batch  the dimension that micro-batches split; empty if there is one.
static std::string gradientPasses(const GradientOptions &options, StringRef batch) {
  const bool isAttached = StringRef(options.loss).contains('(');
  std::string passes = isAttached ? "attach-loss{loss='" + options.loss + "'}," : "";
  std::vector<std::string> chosen;
  if (!options.loss.empty())
    chosen.push_back("loss='" + (isAttached ? "loss" : options.loss) + "'");
  if (!batch.empty()) {
    if (isAttached)
      passes += "infer-types,fold-sizes,canonicalize,cse,";
    passes += "accumulate-loss{" + llvm::join(chosen, " ") + (chosen.empty() ? "" : " ") +
              "batch=" + batch.str() + "},";
  }
  if (!options.trainable.empty())
    chosen.push_back("trainable=" + llvm::join(options.trainable, ","));
  if (options.update)
    chosen.push_back("for-optimizer=true");
  passes += "differentiate" + (chosen.empty() ? "" : "{" + llvm::join(chosen, " ") + "}");
  if (options.update)
    passes += ",key-random" + (batch.empty() ? "" : "{batch=" + batch.str() + "}") + ",infer-types";
  return passes + ",fold-sizes,canonicalize,cse,infer-types";
}

/// The passes of a training step between those that shard and those that cut it: gradients are those of a
/// rank's shards.
static std::string stepPasses(const GradientOptions &options) {
  std::string passes;
  if (options.update)
    passes = "accumulate-gradients,canonicalize,cse,infer-types";
  // Last: cse would merge what is computed again with the forward pass.
  std::vector<std::string> modules;
  std::string kinds;
  for (const std::string &choice : options.recompute)
    if (choice == "full")
      kinds = ",recompute" + kinds;
    else if (llvm::is_contained({nameOf(RecomputeKind::Selective), nameOf(RecomputeKind::MinimumCut)},
                                choice))
      kinds += ",recompute{kind=" + choice + "}";
    else
      modules.push_back(choice);
  if (!modules.empty())
    passes += ",recompute{modules=" + llvm::join(modules, ",") + "}";
  passes += kinds;
  return StringRef(passes).ltrim(',').str();
}

std::vector<std::string> shardingSteps(const CompileOptions &options, const PipelineShape &shape) {
  std::vector<std::string> kept;
  if (!options.capturePoints.empty())
    kept.push_back("keep=" + llvm::join(options.capturePoints, ","));
  if (options.gradients)
    kept.push_back("keep-gradient-stops=true");
  else if (options.observesModules)
    kept.push_back("observe=true");
  std::string types = "strip-boundaries" + (kept.empty() ? "" : "{" + llvm::join(kept, " ") + "}");
  types += ",canonicalize";
  if (shape.hasStates && !shape.batch.empty() && (shape.microbatches != 1 || shape.dataParallelSize > 1))
    types += ",infer-state-rows{batch=" + shape.batch + "}";
  std::vector<std::string> steps{types + ",infer-types" + (isIrText(options.model) ? "{check}" : "") +
                                 ",fold-sizes,canonicalize,cse"};
  const bool isSplit = shape.tensorParallelSize > 1;
  std::vector<std::string> changes;
  if (options.rewriteIdioms)
    changes.push_back("rewrite-idioms" +
                      std::string(isSplit ? "{only=tanh-gelu,rotary,attention,grouped-attention}" : "") +
                      ",cse,infer-types");
  if (options.dtype != "traced")
    changes.push_back("lower-precision{dtype=" + options.dtype +
                      (options.gradients ? " keep-weights=true" : "") + "},canonicalize,cse,infer-types");
  if (options.gradients)
    changes.push_back(gradientPasses(*options.gradients, shape.microbatches > 1 ? shape.batch : ""));
  if (!changes.empty())
    steps.push_back(llvm::join(changes, ","));
  if (isSplit)
    steps.insert(steps.end(), {decidingPass(options, shape), splittingPasses(options)});
  if (options.gradients)
    if (std::string passes = stepPasses(*options.gradients); !passes.empty())
      steps.push_back(std::move(passes));
  return steps;
}

std::string cuttingPasses(const CompileOptions &options, const PipelineShape &shape) {
  std::string assign = "assign-stages{stages=" + std::to_string(shape.stages);
  if (shape.pipelineParallelSize != shape.stages)
    assign += " ranks=" + std::to_string(shape.pipelineParallelSize);
  const std::string dp = shape.dataParallelSize > 1 ? " dp=" + std::to_string(shape.dataParallelSize) : "";
  assign += dp;
  std::string schedule = "assign-schedule{ranks=" + std::to_string(shape.pipelineParallelSize) + dp +
                         " microbatches=" + std::to_string(shape.microbatches);
  if (!shape.batch.empty())
    schedule += " batch=" + shape.batch;
  if (options.gradients && !options.schedule.empty() && options.schedule != "auto")
    schedule += " order=" + options.schedule;
  if (!options.machine.empty()) {
    assign += " machine=" + options.machine;
    schedule += " machine=" + options.machine;
  }
  if (shape.memoryGiven && shape.weightLimits.empty())
    assign += " memory=" + std::to_string(*shape.memoryGiven);
  if (!options.stageBefore.empty())
    assign += " stage-before=" + llvm::join(options.stageBefore, ",");
  if (!shape.weightLimits.empty()) {
    auto limits = llvm::map_range(shape.weightLimits, [](int64_t bytes) { return std::to_string(bytes); });
    assign += " weight-limits=" + llvm::join(limits, ",");
  }
  if (shape.cutWork)
    assign += " steps=" + std::to_string(*shape.cutWork);
  // Behind the cut, which says what each stage updates.
  const std::string update = options.gradients && options.gradients->update
                                 ? updatePasses(*options.gradients->update, shape) + ","
                                 : "";
  return assign + "}," + update + schedule + "},split-stages";
}

/// The passes of a pipeline text, each with its options.
static SmallVector<StringRef> passesIn(StringRef text) {
  SmallVector<StringRef> passes;
  size_t begin = 0, depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    depth += i < text.size() && text[i] == '{';
    depth -= i < text.size() && text[i] == '}';
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      passes.push_back(text.slice(begin, i));
      begin = i + 1;
    }
  }
  return passes;
}

/// True for a pass that decides for all functions of a module together; the others run on each function.
static bool isModulePass(StringRef pass) {
  return llvm::is_contained({"annotate-sharding", "propagate-sharding", "assign-stages", "lower-precision"},
                            pass.split('{').first);
}

static std::string wholePipeline(StringRef passes) {
  std::string text;
  bool isInFunction = false;
  for (StringRef pass : passesIn(passes)) {
    if (isInFunction && isModulePass(pass))
      text += ")";
    text += text.empty() ? "" : ",";
    if (!isInFunction && !isModulePass(pass))
      text += "func.func(";
    isInFunction = !isModulePass(pass);
    text += pass;
  }
  return "builtin.module(" + text + (isInFunction ? "))" : ")");
}

std::string passPipelineOf(const CompileOptions &options, const PipelineShape &shape) {
  return wholePipeline(llvm::join(shardingSteps(options, shape), ",") + "," + cuttingPasses(options, shape));
}

unsigned countPasses(StringRef passes) { return passesIn(passes).size(); }

namespace {
/// Reports each pass when it begins.
class PassTeller : public PassInstrumentation {
public:
  PassTeller(llvm::function_ref<void(StringRef)> begins) : begins(begins) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (!pass->getArgument().empty())
      begins(pass->getArgument());
  }

private:
  llvm::function_ref<void(StringRef)> begins;
};
} // namespace

/// True if `path`, which may not exist, is the plan's folder or inside it.
static bool isInPlan(StringRef path, StringRef plan) {
  llvm::Expected<std::string> resolved = plan::resolveOutputPath(path);
  if (!resolved) {
    // A folder that it is in is not there either.
    llvm::consumeError(resolved.takeError());
    return false;
  }
  StringRef within = *resolved;
  while (!within.empty() && within != plan)
    within = llvm::sys::path::parent_path(within);
  return within == plan;
}

llvm::Error checkIrFolder(StringRef folder, StringRef output) {
  namespace fs = llvm::sys::fs;
  if (folder.empty())
    return llvm::Error::success();
  auto refuse = [&](const llvm::Twine &why) {
    return llvm::createStringError("--emit-ir " + folder + ": " + why + "; give another name");
  };
  llvm::Expected<std::string> plan = plan::resolveOutputPath(output);
  if (!plan)
    return plan.takeError();
  for (StringRef path = folder.rtrim('/'); !path.empty(); path = llvm::sys::path::parent_path(path)) {
    if (isInPlan(path, *plan))
      return refuse("is in the folder of the plan, which holds nothing else");
    if (fs::is_symlink_file(path) && !fs::exists(path))
      return refuse((path == folder ? "" : path + " ") + "is a link to nothing");
    if (!fs::exists(path))
      continue;
    if (!fs::is_directory(path))
      return refuse((path == folder ? "" : path + " ") +
                    "is a file, expected a folder for the IR after each pass");
    return fs::can_write(path) ? llvm::Error::success() : refuse(path + " cannot be written");
  }
  return llvm::Error::success();
}

/// Writes the module after a pass, the file atomically.
static llvm::Error writeIr(ModuleOp module, StringRef folder, unsigned number, StringRef pass) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, llvm::formatv("{0,0+2}-{1}.mlir", number, pass.split('{').first).str());
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false).useLocalScope());
  if (auto error = plan::writeFileAtomically(path, text))
    return llvm::createStringError("--emit-ir: " + toString(std::move(error)));
  return llvm::Error::success();
}

static llvm::Error runPasses(ModuleOp module, StringRef passes, llvm::function_ref<void(StringRef)> begins) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName(), OpPassManager::Nesting::Explicit);
  std::string text;
  llvm::raw_string_ostream errors(text);
  auto parsed = parsePassPipeline(wholePipeline(passes), errors);
  if (failed(parsed))
    return llvm::createStringError("pass pipeline: " + text);
  static_cast<OpPassManager &>(manager) = std::move(*parsed);
  manager.addInstrumentation(std::make_unique<PassTeller>(begins));
  return succeeded(manager.run(module)) ? llvm::Error::success() : llvm::createStringError("a pass failed");
}

llvm::Error runPassPipeline(ModuleOp module, StringRef passes, const IrFiles &files,
                            llvm::function_ref<void(StringRef)> begins) {
  static bool isRegistered = [] {
    registerPasses();
    return true;
  }();
  (void)isRegistered;
  if (files.folder.empty())
    return runPasses(module, passes, begins);
  if (llvm::Error error = plan::OutputBroker::makeIrFolder(files.folder))
    return llvm::createStringError("--emit-ir: " + toString(std::move(error)));
  // One pass after the other on all functions, as the files show them.
  for (auto [index, pass] : llvm::enumerate(passesIn(passes))) {
    llvm::Error failed = runPasses(module, pass, begins);
    if (llvm::Error error = writeIr(module, files.folder, files.done + index + 1, pass)) {
      consumeError(std::move(failed));
      return error;
    }
    if (failed)
      return failed;
  }
  return llvm::Error::success();
}

} // namespace cleave
