//===- Pipeline.cpp - The passes of a compilation -------------------------===//
#include "tools/driver/Pipeline.h"
#include "codegen/plan/OutputDirectory.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace cleave {

std::string pipelineOf(const CompileOptions &options, const PipelineShape &shape) {
  std::string strip = "strip-boundaries", assign = "assign-stages{stages=" + std::to_string(shape.stages);
  if (!options.capturePoints.empty())
    strip += "{keep=" + llvm::join(options.capturePoints, ",") + "}";
  if (shape.ranks != shape.stages)
    assign += " ranks=" + std::to_string(shape.ranks);
  if (!options.machine.empty())
    assign += " machine=" + options.machine;
  std::string schedule = "assign-schedule{ranks=" + std::to_string(shape.ranks) +
                         " microbatches=" + std::to_string(options.microbatches);
  if (!shape.batch.empty())
    schedule += " batch=" + shape.batch;
  if (!options.machine.empty())
    schedule += " machine=" + options.machine;
  if (!options.stageBefore.empty())
    assign += " stage-before=" + llvm::join(options.stageBefore, ",");
  std::string idioms = options.rewritesIdioms ? "rewrite-idioms,cse,infer-types," : "", norms;
  if (options.rewritesIdioms && shape.tensorRanks > 1) {
    idioms = "rewrite-idioms{only=tanh-gelu,rotary,attention,grouped-attention},cse,infer-types,";
    norms = "rewrite-idioms{only=rms-norm},cse,infer-types,";
  }
  std::string precision = options.dtype == "traced"
                              ? ""
                              : "lower-precision{dtype=" + options.dtype + "},canonicalize,cse,infer-types,";
  std::string sharding;
  if (shape.tensorRanks > 1) {
    sharding = "annotate-sharding{tp=" + std::to_string(shape.tensorRanks);
    if (!options.machine.empty())
      sharding += " machine=" + options.machine;
    if (shape.memoryBytes && shape.weighsMemory)
      sharding += " memory=" + std::to_string(std::min<uint64_t>(
                                   llvm::SaturatingMultiply<uint64_t>(*shape.memoryBytes, shape.ranks), INT64_MAX));
    if (!shape.shard.empty())
      sharding += " shard=" + llvm::join(shape.shard, ",");
    sharding += "},propagate-sharding,resolve-conflicts,partition-spmd,place-collectives,canonicalize,cse,"
                "infer-types," + norms;
  }
  return "builtin.module(func.func(" + strip + ",canonicalize,infer-types,fold-sizes,canonicalize,cse," +
         idioms + precision + sharding + assign + "}," + schedule + "},split-stages))";
}

namespace {
/// Writes the function after each pass, each file whole or not at all, until one cannot be written.
class IrWriter : public PassInstrumentation {
public:
  IrWriter(StringRef directory, std::string &failure) : directory(directory), failure(failure) {}

  void runAfterPass(Pass *pass, Operation *op) override { write(pass, op); }
  void runAfterPassFailed(Pass *pass, Operation *op) override { write(pass, op); }

private:
  void write(Pass *pass, Operation *op) {
    if (!failure.empty() || !isa<func::FuncOp>(op) || pass->getArgument().empty())
      return;
    llvm::SmallString<256> path(directory);
    llvm::sys::path::append(path, llvm::formatv("{0,0+2}-{1}.mlir", ++count, pass->getArgument()).str());
    std::string text;
    llvm::raw_string_ostream out(text);
    op->getParentOp()->print(out,
                             OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false).useLocalScope());
    if (auto error = plan::writeFileAtomically(path, text))
      failure = "--emit-ir: " + toString(std::move(error));
  }

  std::string directory;
  std::string &failure;
  unsigned count = 0;
};

/// Tells of each pass when it begins.
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

llvm::Error checkIrFolder(StringRef folder) {
  namespace fs = llvm::sys::fs;
  auto refuse = [&](const llvm::Twine &why) {
    return llvm::createStringError("--emit-ir " + folder + ": " + why + "; give another name");
  };
  for (StringRef path = folder.rtrim('/'); !path.empty(); path = llvm::sys::path::parent_path(path)) {
    if (!fs::exists(path))
      continue;
    if (!fs::is_directory(path))
      return refuse((path == folder ? "" : path + " ") +
                    "is a file, expected a folder for the IR after each pass");
    return fs::can_write(path) ? llvm::Error::success() : refuse(path + " cannot be written");
  }
  return llvm::Error::success();
}

llvm::Error runPipeline(ModuleOp module, StringRef pipeline, StringRef emitIr,
                        llvm::function_ref<void(StringRef)> begins) {
  static bool isRegistered = [] {
    registerPasses();
    return true;
  }();
  (void)isRegistered;
  PassManager manager(module.getContext(), ModuleOp::getOperationName(), OpPassManager::Nesting::Explicit);
  std::string text;
  llvm::raw_string_ostream errors(text);
  auto parsed = parsePassPipeline(pipeline, errors);
  if (failed(parsed))
    return llvm::createStringError("pass pipeline: " + text);
  static_cast<OpPassManager &>(manager) = std::move(*parsed);
  manager.addInstrumentation(std::make_unique<PassTeller>(begins));
  std::string failure;
  if (!emitIr.empty()) {
    if (std::error_code error = llvm::sys::fs::create_directories(emitIr))
      return llvm::createStringError("--emit-ir " + emitIr + ": cannot make this folder: " + error.message() +
                                     "; give another name");
    manager.addInstrumentation(std::make_unique<IrWriter>(emitIr, failure));
  }
  bool isDone = succeeded(manager.run(module));
  if (!failure.empty())
    return llvm::createStringError(failure);
  return isDone ? llvm::Error::success() : llvm::createStringError("a pass failed");
}

} // namespace cleave
