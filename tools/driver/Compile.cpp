//===- Compile.cpp - From a model file to a plan --------------------------===//
#include "tools/driver/Compile.h"
#include "codegen/EmitPlan.h"
#include "codegen/Shards.h"
#include "codegen/plan/OutputDirectory.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "frontend/Import.h"
#include "ir/NearestName.h"
#include "ir/Schemas.h"
#include "runtime/DTypes.h"
#include "tools/driver/DiagnosticCollector.h"
#include "tools/driver/InputOptions.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/Pipeline.h"
#include "tools/driver/Verify.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/Path.h"
#include <ATen/ops/cat.h>
#include <chrono>
#include <map>

namespace cleave {

static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

namespace {
/// One compilation, step by step.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options) : options(options) {}
  llvm::Expected<CompileReport> run();
  /// The passes accepted the model; what failed later is no matter of how it was split.
  bool hasPlan() const { return plan != nullptr; }

private:
  llvm::Error read();
  llvm::Error runPasses();
  /// With the sharding that weighs memory, else with the one that takes least.
  llvm::Error fitPasses();
  llvm::Error putInPlace();
  llvm::Error write();
  llvm::Error writeShards();
  llvm::Error readWeight(const plan::Weight &weight, const plan::WeightShard &shard,
                         llvm::function_ref<llvm::Error(const at::Tensor &piece)> use) const;
  llvm::Error checkCapturePoints() const;
  std::pair<uint32_t, int64_t> mostNeeded() const;
  llvm::Error checkMemory() const;
  std::string suggestion(llvm::StringRef pattern) const;
  llvm::Error verifyPlan();
  void describe();
  void progress(const llvm::Twine &step, std::optional<double> done = std::nullopt) const {
    if (options.progress)
      options.progress(step.str(), done);
  }

  const CompileOptions &options;
  CompileReport report;
  PipelineShape shape;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::optional<TorchScriptFile> file;
  ImportedModel model;
  std::unique_ptr<plan::Plan> plan;
  std::optional<plan::OutputDirectory> directory;
};
} // namespace

llvm::Error Compilation::read() {
  for (const std::string &library : options.libraries)
    if (auto message = loadOperatorLibrary(library))
      return llvm::createStringError("--library " + library + ": cannot be loaded: " + *message);
  auto parsed = readPipelineShape(options);
  if (!parsed)
    return parsed.takeError();
  shape = *parsed;
  auto inputs = readInputOptions(options);
  if (!inputs)
    return inputs.takeError();
  if (options.microbatches != 1)
    shape.batch = nameBatch(*inputs);
  auto opened =
      TorchScriptFile::open(options.model, [&](double done) { progress("reading " + options.model, done); });
  if (!opened)
    return opened.takeError();
  file = std::move(*opened);
  progress("importing " + options.model);
  mlir::DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  DiagnosticCollector diagnostics(context);
  auto imported = importTorchScript(*file, *inputs, &context);
  if (mlir::failed(imported))
    return diagnostics.takeError(options.model);
  model = std::move(*imported);
  return llvm::Error::success();
}

llvm::Error Compilation::runPasses() {
  DiagnosticCollector diagnostics(context);
  std::string pipeline = pipelineOf(options, shape);
  std::string cutting =
      llvm::formatv("cutting into {0} stage{1}: ", shape.stages, shape.stages == 1 ? "" : "s");
  if (auto error = runPipeline(*model.module, pipeline, options.emitIr,
                               [&](llvm::StringRef pass) { progress(cutting + pass); })) {
    if (!diagnostics.hasErrors())
      return error;
    // The pipeline's own error only says that a pass failed.
    consumeError(std::move(error));
    return diagnostics.takeError(options.model);
  }
  // The plan says which machine file it was made for, not where that lay.
  CompileOptions named = options;
  named.machine = llvm::sys::path::filename(options.machine).str();
  std::string recorded = pipelineOf(named, shape);
  auto emitted = emitPlan(*model.module, {"cleave " CLEAVE_VERSION, file->fingerprint, recorded});
  if (mlir::failed(emitted))
    return diagnostics.takeError(options.model);
  plan = std::move(*emitted);
  return checkCapturePoints();
}

llvm::Error Compilation::fitPasses() {
  const bool weighs = shape.memoryBytes && shape.tensorRanks > 1;
  auto imported = weighs ? mlir::OwningOpRef<mlir::ModuleOp>(model.module->clone()) : nullptr;
  if (auto error = runPasses())
    return error;
  auto tooLarge = checkMemory();
  if (!tooLarge || !weighs)
    return tooLarge;
  // What stayed whole where there seemed to be room was too much.
  const int64_t needed = mostNeeded().second;
  model.module = std::move(imported);
  shape.weighsMemory = false;
  auto error = runPasses();
  if (!error)
    error = checkMemory();
  // Gathers may take more than what they save; the smaller need is said.
  if (error && needed < mostNeeded().second) {
    consumeError(std::move(error));
    return tooLarge;
  }
  consumeError(std::move(tooLarge));
  return error;
}

/// The module path that a pattern was probably meant to match.
std::string Compilation::suggestion(llvm::StringRef pattern) const {
  std::vector<std::string> paths;
  for (llvm::StringRef path : plan->paths)
    for (; !path.empty(); path = path.contains('.') ? path.rsplit('.').first : "")
      paths.push_back(path.str());
  return didYouMean(pattern, paths);
}

/// A pattern that matches nothing is a misspelt one.
llvm::Error Compilation::checkCapturePoints() const {
  for (const std::string &text : options.capturePoints) {
    auto pattern = llvm::cantFail(llvm::GlobPattern::create(text), "readPipelineShape has checked it");
    if (llvm::none_of(plan->capture_points, [&](auto &point) { return pattern.match(point->path); }))
      return llvm::createStringError(
          "--capture-points " + text +
          ": matches no module; give module paths as the model's source has them, with * and ?" +
          suggestion(text));
  }
  return llvm::Error::success();
}

/// The rank that holds most at its peak, and the bytes.
std::pair<uint32_t, int64_t> Compilation::mostNeeded() const {
  struct Need {
    int64_t weights = 0, others = 0;
  };
  std::map<uint32_t, Need> needs;
  for (auto &prediction : plan->predictions)
    for (uint32_t rank : plan->stages[prediction->stage]->ranks) {
      // Stages of one rank compute one after the other, and keep their weights.
      needs[rank].weights += prediction->weight_bytes;
      needs[rank].others = std::max(needs[rank].others, prediction->peak_bytes - prediction->weight_bytes);
    }
  std::pair<uint32_t, int64_t> most{0, 0};
  for (auto &[rank, need] : needs)
    if (need.weights + need.others > most.second)
      most = {rank, need.weights + need.others};
  return most;
}

/// What the devices are to hold at their peaks has room in them.
llvm::Error Compilation::checkMemory() const {
  auto [rank, bytes] = mostNeeded();
  if (!shape.memoryBytes || bytes <= *shape.memoryBytes)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("{0}: rank {1} takes {2} bytes at its peak, its device has {3}; use more devices, or "
                    "devices with memory for {2}",
                    options.model, rank, bytes, *shape.memoryBytes)
          .str());
}

/// Calls `use` with the part of `tensor`, which has three dimensions, that the segments of the middle one
/// are, in pieces of about `step` elements.
static llvm::Error
forEachPiece(const at::Tensor &tensor, const plan::WeightShard &shard, int64_t step,
             llvm::function_ref<llvm::Error(const at::Tensor &piece, const at::Tensor &read)> use) {
  const int64_t row = std::max<int64_t>(tensor.size(1) * tensor.size(2), 1),
                rows = std::max<int64_t>(step / row, 1);
  for (int64_t begin = 0; begin < tensor.size(0); begin += rows) {
    at::Tensor read = tensor.slice(0, begin, begin + rows);
    std::vector<at::Tensor> segments;
    // Segments of one row may be large themselves.
    const int64_t most = tensor.size(0) == 1
                             ? std::max<int64_t>(step / std::max<int64_t>(tensor.size(2), 1), 1)
                             : tensor.size(1);
    for (size_t i = 0; i < shard.segment_offsets.size(); ++i)
      for (int64_t done = 0; done < shard.segment_sizes[i]; done += most)
        segments.push_back(
            read.narrow(1, shard.segment_offsets[i] + done, std::min(most, shard.segment_sizes[i] - done)));
    if (tensor.size(0) == 1) {
      for (const at::Tensor &segment : segments)
        if (auto error = use(segment, segment))
          return error;
    } else if (!segments.empty()) {
      if (auto error = use(at::cat(segments, 1), read))
        return error;
    }
  }
  return llvm::Error::success();
}

llvm::Error Compilation::readWeight(const plan::Weight &weight, const plan::WeightShard &shard,
                                    llvm::function_ref<llvm::Error(const at::Tensor &piece)> use) const {
  const WeightTable::Entry *entry = model.weights.find(weight.name);
  at::Tensor tensor = entry->tensor.contiguous();
  auto dtype = *runtime::scalarTypeOf(weight.dtype);
  // A whole weight is one segment of one row.
  plan::WeightShard whole;
  whole.segment_offsets = {0};
  whole.segment_sizes = {tensor.numel()};
  const bool isPart = shard.segment_dim >= 0;
  const auto outer = isPart ? c10::multiply_integers(tensor.sizes().slice(0, shard.segment_dim)) : 1;
  const auto middle = isPart ? tensor.size(shard.segment_dim) : tensor.numel();
  const auto inner = isPart ? c10::multiply_integers(tensor.sizes().slice(shard.segment_dim + 1)) : 1;
  constexpr int64_t kPieceBytes = 8 << 20;
  return forEachPiece(tensor.view({outer, middle, inner}), isPart ? shard : whole,
                      kPieceBytes / tensor.element_size(),
                      [&](const at::Tensor &piece, const at::Tensor &read) -> llvm::Error {
                        if (auto error = use(piece.contiguous().to(dtype)))
                          return error;
                        file->release(read.const_data_ptr(), read.nbytes());
                        return llvm::Error::success();
                      });
}

llvm::Error Compilation::writeShards() {
  uint64_t written = 0, all = 0;
  for (auto &weight : plan->weights)
    for (auto &shard : weight->shards)
      all += plan::bytesOf(weight->dtype, shard->shape).value_or(0);
  std::string step = llvm::formatv("writing {0} MB of weights", (all + 500'000) / 1'000'000);
  progress(step, 0);
  auto reader = [&](const plan::Weight &weight, const plan::WeightShard &shard, plan::ByteSink sink) {
    return readWeight(weight, shard, [&](const at::Tensor &piece) {
      written += piece.nbytes();
      progress(step, double(written) / all);
      return sink({static_cast<const uint8_t *>(piece.const_data_ptr()), piece.nbytes()});
    });
  };
  return cleave::writeShards(*plan, directory->path(), reader);
}

llvm::Error Compilation::write() {
  auto start = std::chrono::steady_clock::now();
  if (auto error = writeShards())
    return error;
  // What we write we can read: our own bugs are found here, not by a user.
  if (auto error = plan::validate(*plan))
    return error;
  llvm::SmallString<256> path(directory->path());
  llvm::sys::path::append(path, plan::kPlanFileName);
  std::vector<uint8_t> bytes = plan::encode(*plan);
  if (auto error = plan::writeFileAtomically(
          path, llvm::StringRef(reinterpret_cast<const char *>(bytes.data()), bytes.size())))
    return error;
  report.writeSeconds = secondsSince(start);
  return llvm::Error::success();
}

llvm::Error Compilation::verifyPlan() {
  auto start = std::chrono::steady_clock::now();
  VerifyOptions verification;
  verification.plan = directory->path();
  verification.model = options.model;
  verification.inputsFile = options.inputsFile;
  verification.looksBeside = false;
  verification.libraries = options.libraries;
  verification.progress = options.progress;
  auto verified = verify(verification);
  if (!verified)
    return verified.takeError();
  report.verifySeconds = secondsSince(start);
  for (auto &output : verified->outputs) {
    if (!output.ok)
      return llvm::createStringError(
          "%s: the plan differs from the original in %s: found an error of %g, allowed "
          "%g; no plan was written",
          options.model.c_str(), output.describe().c_str(), output.error, output.allowed);
    // Integers and bools, which must be equal, say nothing of how near numbers are.
    if (output.allowed > 0 && output.error * report.allowedError >= report.error * output.allowed) {
      report.error = output.error;
      report.allowedError = output.allowed;
    }
  }
  report.maxAbsError = verified->maxAbsError();
  report.skipped = verified->skipped;
  return llvm::Error::success();
}

void Compilation::describe() {
  report.stages = plan->stages.size();
  report.microbatches = plan->schedules.front()->microbatches;
  report.tensorRanks = plan->mesh->tp;
  double slowest = 0, sum = 0;
  for (auto &prediction : plan->predictions) {
    slowest = std::max(slowest, prediction->seconds);
    sum += prediction->seconds;
    report.weightBytes += prediction->weight_bytes;
  }
  report.balance = sum > 0 ? slowest * plan->predictions.size() / sum : 1;
  for (auto &note : plan->notes)
    report.notes.push_back(note->text);
  if (shape.devicesOfMachine)
    report.notes.push_back(
        llvm::formatv("{0} of the {1} devices of {2} are used; leave --devices away to use all",
                      shape.ranks * shape.tensorRanks, shape.devicesOfMachine, options.machine));
  if (int32_t batch = plan->signatures.front()->batch; batch >= 0)
    if (int64_t samples = plan->signatures.front()->symbols[batch]->traced; samples < report.microbatches)
      report.notes.push_back(
          llvm::formatv("{0} micro-batches, but {1} samples in the example inputs: batches of fewer "
                        "samples than micro-batches are not split",
                        report.microbatches, samples));
  if (options.dtype != "traced" && plan->precision == plan::DType::Unknown)
    report.notes.push_back("--dtype " + options.dtype +
                           " changes nothing: the model has no products in float32");
}

llvm::Error Compilation::putInPlace() {
  if (auto error = write())
    return error;
  if (options.verify)
    if (auto error = verifyPlan())
      return error;
  progress("putting " + options.output + " in place");
  return directory->commit();
}

llvm::Expected<CompileReport> Compilation::run() {
  // First, since a place that cannot be written is best known before the work.
  if (options.writesPlan) {
    auto created = plan::OutputDirectory::create(options.output);
    if (!created)
      return created.takeError();
    directory.emplace(std::move(*created));
  }
  if (auto error = checkIrFolder(options.emitIr))
    return error;
  auto start = std::chrono::steady_clock::now();
  if (auto error = read())
    return error;
  report.readSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  if (auto error = fitPasses())
    return error;
  report.passSeconds = secondsSince(start);
  describe();
  if (directory)
    if (auto error = putInPlace())
      return error;
  report.plan = std::move(plan);
  return std::move(report);
}

llvm::Expected<CompileReport> compile(const CompileOptions &options) {
  Compilation compilation(options);
  auto report = compilation.run();
  if (report || options.microbatches != 0 || compilation.hasPlan())
    return report;
  // A model that holds the traced batch in itself compiles only for that.
  std::string reason = toString(report.takeError());
  CompileOptions whole = options;
  whole.microbatches = 1;
  auto second = Compilation(whole).run();
  if (second)
    second->notes.push_back("the batch is not split: " + reason);
  return second;
}

} // namespace cleave
