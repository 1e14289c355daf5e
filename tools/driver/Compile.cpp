//===- Compile.cpp - Compiles a model file to a plan ----------------------===//
#include "tools/driver/Compile.h"
#include "codegen/Shards.h"
#include "codegen/plan/EncodePlan.h"
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/SafetensorsHeader.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "ir/autograd/AddOptimizer.h"
#include "ir/autograd/Differentiate.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "tools/driver/Verify.h"
#include "tools/driver/base/PassPipeline.h"
#include "tools/driver/base/UsageError.h"
#include "tools/driver/search/MeshSearch.h"
#include "tools/driver/search/RecomputeSearch.h"
#include "tools/driver/witnesses/WitnessedSizes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <ATen/ops/cat.h>
#include <chrono>
#include <cmath>

namespace cleave {

static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// One compilation, step by step.
class Compilation {
public:
  explicit Compilation(const CompileOptions &options) : options(options), silent(options) {
    silent.emitIr.clear();
  }
  llvm::Expected<CompileReport> run();
  /// Makes only the plan, for one memory limit after another; the first call reads the model.
  llvm::Expected<CompileReport> replan(std::optional<int64_t> deviceMemory);
  /// True if the batch was to be split, and the passes rejected every split.
  bool failedToSplit() const {
    return shape.microbatches == 0 && shape.dataParallelSize == 1 && !source.batch.empty() && !passesAccepted;
  }

private:
  llvm::Error read();
  llvm::Error chooseRecomputation();
  llvm::Error split();
  llvm::Error make(PlanMaker &maker);
  llvm::Error putInPlace();
  llvm::Error write();
  llvm::Error writeShards();
  llvm::Error readWeight(const plan::Weight &weight, const plan::WeightShard &shard,
                         llvm::function_ref<llvm::Error(const at::Tensor &piece)> use) const;
  llvm::Error verifyPlan();
  void describe();
  void progress(const llvm::Twine &step, std::optional<double> done = std::nullopt) const {
    if (options.progress)
      options.progress(step.str(), done);
  }

  CompileOptions options;
  /// Without IR files: of all meshes, only the chosen one's are written.
  CompileOptions silent;
  CompileReport report;
  PipelineShape shape;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  ModelSource source;
  /// Set once the model has been read.
  std::optional<PlanMaker> maker;
  bool passesAccepted = false;
  PlanWitnesses witnesses;
  std::unique_ptr<plan::Plan> plan;
  /// Of training: the configurations that were evaluated.
  plan::MeshCandidates candidates;
  std::optional<plan::OutputDirectory> directory;
};

/// Gradients are not summed over data-parallel ranks yet.
static llvm::Error checkGradientOptions(const CompileOptions &options, const PipelineShape &shape) {
  if (!options.gradients)
    return llvm::Error::success();
  const std::pair<bool, const char *> refused[] = {
      {shape.search.has_value(), "--mesh auto, expected a mesh: only --train chooses one"},
      {shape.dataParallelSize > 1, "data-parallel ranks, expected one"},
      {shape.microbatches == 0, "--microbatches auto without --mesh auto, expected a number"},
      {shape.microbatches > 1 && !options.gradients->update,
       "--microbatches, expected a batch in one piece: only --train adds up gradients"},
      {options.dtype != "traced" && options.verify,
       "--verify with --dtype, expected one of them: the original's gradients have its dtypes"}};
  for (auto [isGiven, what] : refused)
    if (isGiven)
      return wrongUsage(llvm::Twine(options.gradients->update ? "--train: found " : "--gradients: found ") +
                        what);
  const GradientOptions &gradients = *options.gradients;
  if (auto error = checkPatterns("--trainable", gradients.trainable))
    return error;
  if (auto error = checkPatterns("--recompute", gradients.recompute))
    return error;
  if (gradients.update)
    if (auto error = checkPatterns("--no-decay", gradients.update->noDecay))
      return error;
  if (const auto &update = options.gradients->update) {
    if (auto optimizer = parseOptimizer(update->optimizer); !optimizer)
      return wrongUsage("--" + llvm::toString(optimizer.takeError()));
  }
  const double clipNorm = gradients.update ? gradients.update->clipNorm.value_or(1) : 1;
  if (!(clipNorm > 0 && std::isfinite(clipNorm)))
    return wrongUsage("--clip-norm: expected a positive number");
  if (options.gradients->loss.find_first_of("'{}\"") != std::string::npos)
    return wrongUsage("--loss " + options.gradients->loss +
                      ": found a quote or brace, expected a loss as "
                      "cross_entropy(logits, labels)");
  return llvm::Error::success();
}

llvm::Error Compilation::read() {
  auto parsed = readPipelineShape(options);
  if (parsed && parsed->search && options.gradients && options.gradients->update) {
    auto forecast = chooseTrainingMesh(options);
    if (!forecast)
      return forecast.takeError();
    candidates = std::move(forecast->candidates);
    report.notes = std::move(forecast->notes);
    silent = options;
    silent.emitIr.clear();
    parsed = readPipelineShape(options);
  }
  if (!parsed)
    return parsed.takeError();
  shape = *parsed;
  if (auto error = checkGradientOptions(options, shape))
    return error;
  if (!maker) {
    CompileOptions chosen = options;
    chosen.microbatches = shape.dataParallelSize == 1 ? shape.microbatches : 0;
    if (auto error = readModel(chosen, context).moveInto(source))
      return error;
    // Before the work.
    if (options.writePlan)
      if (auto error = PlanWitnesses::read(options, source).moveInto(witnesses))
        return error;
    // A search reports its own progress.
    if (shape.search)
      silent.progress = nullptr;
    maker.emplace(silent, source, context);
  }
  if (options.gradients && options.gradients->trainable.empty())
    source.model.module->walk([&](ParamOp param) {
      const WeightTable::Entry *entry = source.model.weights.find(param.getName());
      if (entry && !entry->tensor.requires_grad())
        param->setAttr(kFrozenAttr, mlir::UnitAttr::get(&context));
    });
  shape.batch = source.batch;
  source.model.module->walk([&](ReadStateOp) { shape.hasStates = true; });
  return llvm::Error::success();
}

llvm::Error Compilation::make(PlanMaker &maker) {
  auto error = maker.make(shape).moveInto(plan);
  passesAccepted = maker.takeAccepted();
  return error;
}

/// For the memory of the device.
llvm::Error Compilation::chooseRecomputation() {
  const bool isChosen = options.gradients->recompute.empty();
  auto recomputed = chooseRecomputed(silent, source, context, shape);
  if (!recomputed)
    return recomputed.takeError();
  if (isChosen && !recomputed->empty()) {
    std::string chosen = "what is cheap (minimum-cut)";
    if (const size_t modules = recomputed->size() - 1; modules == 1)
      chosen += ", and activations of " + recomputed->back();
    else if (modules > 1)
      chosen += llvm::formatv(", and activations of {0} to {1} ({2} modules)", (*recomputed)[1],
                              recomputed->back(), modules);
    report.notes.push_back("to fit the device's memory, the backward pass recomputes " + chosen);
  }
  options.gradients->recompute = silent.gradients->recompute = std::move(*recomputed);
  return llvm::Error::success();
}

llvm::Error Compilation::split() {
  if (options.gradients)
    if (auto error = chooseRecomputation())
      return error;
  if (shape.search) {
    auto found = searchMesh(*maker, options, shape);
    passesAccepted = maker->takeAccepted();
    if (!found)
      return found.takeError();
    shape = std::move(found->shape);
    plan = std::move(found->plan);
    report.notes = std::move(found->notes);
    if (options.emitIr.empty())
      return llvm::Error::success();
  }
  if (plan)
    candidates = std::move(plan->candidates);
  if (options.emitIr.empty()) {
    if (auto error = make(*maker))
      return error;
  } else {
    PlanMaker writing(options, source, context);
    if (auto error = make(writing))
      return error;
  }
  plan->candidates = std::move(candidates);
  return llvm::Error::success();
}

/// Calls `use` with the ranges of the middle dimension of `tensor`, which has three dimensions, in pieces
/// of about `step` elements.
static llvm::Error
forEachPiece(const at::Tensor &tensor, const plan::DimRanges &ranges, int64_t step,
             llvm::function_ref<llvm::Error(const at::Tensor &piece, const at::Tensor &read)> use) {
  const int64_t row = std::max<int64_t>(tensor.size(1) * tensor.size(2), 1),
                rows = std::max<int64_t>(step / row, 1);
  for (int64_t begin = 0; begin < tensor.size(0); begin += rows) {
    at::Tensor read = tensor.slice(0, begin, begin + rows);
    std::vector<at::Tensor> segments;
    // Segments of a single row may be large themselves.
    const int64_t most = tensor.size(0) == 1
                             ? std::max<int64_t>(step / std::max<int64_t>(tensor.size(2), 1), 1)
                             : tensor.size(1);
    for (auto [offset, size] : llvm::zip(ranges.offsets, ranges.sizes))
      for (int64_t done = 0; done < size; done += most)
        segments.push_back(read.narrow(1, offset + done, std::min(most, size - done)));
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
  const WeightTable::Entry *entry = source.model.weights.find(weight.name);
  at::Tensor tensor = entry->tensor.resolve_conj().resolve_neg().contiguous();
  auto dtype = *runtime::scalarTypeOf(weight.dtype);
  const bool isPart = !shard.ranges.empty();
  // All dimensions but the last one that is split; most weights have only that one.
  for (size_t i = 0; i + 1 < shard.ranges.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (auto [offset, size] : llvm::zip(shard.ranges[i]->offsets, shard.ranges[i]->sizes))
      parts.push_back(tensor.narrow(shard.ranges[i]->dim, offset, size));
    tensor = at::cat(parts, shard.ranges[i]->dim);
  }
  // A whole weight is one range of one row.
  plan::DimRanges whole;
  whole.offsets = {0};
  whole.sizes = {tensor.numel()};
  const plan::DimRanges &ranges = isPart ? *shard.ranges.back() : whole;
  const auto outer = isPart ? c10::multiply_integers(tensor.sizes().slice(0, ranges.dim)) : 1;
  const auto middle = isPart ? tensor.size(ranges.dim) : tensor.numel();
  const auto inner = isPart ? c10::multiply_integers(tensor.sizes().slice(ranges.dim + 1)) : 1;
  constexpr int64_t kPieceBytes = 8 << 20;
  return forEachPiece(tensor.view({outer, middle, inner}), ranges, kPieceBytes / tensor.element_size(),
                      [&](const at::Tensor &piece, const at::Tensor &read) -> llvm::Error {
                        if (auto error = use(piece.contiguous().to(dtype)))
                          return error;
                        source.release(read.const_data_ptr(), read.nbytes());
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
  auto reader = [&](const plan::Weight &weight, const plan::WeightShard &shard,
                    plan::ByteSink sink) -> llvm::Error {
    try {
      return readWeight(weight, shard, [&](const at::Tensor &piece) {
        written += piece.nbytes();
        progress(step, double(written) / all);
        return sink({static_cast<const uint8_t *>(piece.const_data_ptr()), piece.nbytes()});
      });
    } catch (const std::exception &exception) {
      // With strides of 0, a weight may be far larger than its file.
      return llvm::createStringError(options.model + ": weight " + weight.name + ": " +
                                     runtime::messageOf(exception));
    }
  };
  return cleave::writeShards(*plan, directory->path(), reader);
}

llvm::Error Compilation::write() {
  auto start = std::chrono::steady_clock::now();
  if (auto error = writeShards())
    return error;
  // Validates our own plan, so that our bugs are found here and not by a user.
  if (auto error = plan::validate(*plan))
    return llvm::createStringError(options.model +
                                   ": makes no plan that can be read: " + toString(std::move(error)));
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
  verification.inputsFiles = options.inputsFiles;
  verification.useInputsBesideModel = false;
  verification.useWitnesses = !options.beyondWitnesses;
  verification.libraries = options.libraries;
  // The original calls them, too.
  verification.allowedOperators = plan->operators;
  verification.requireListedOperators = options.requireListedOperators;
  if (options.gradients) {
    verification.loss = options.gradients->loss;
    verification.trainable = options.gradients->trainable;
    verification.update = options.gradients->update;
  }
  verification.progress = options.progress;
  auto verified = verify(verification);
  if (!verified)
    return verified.takeError();
  report.verifySeconds = secondsSince(start);
  if (auto different = verified->firstDifference())
    return llvm::createStringError(
        "%s: the plan differs from the %s in %s: found an error of %g, allowed %g%s; no plan was written",
        options.model.c_str(), different->isFromWitness ? "module" : "original", different->name.c_str(),
        different->error, different->allowed,
        !verified->draws.empty() ? describeDraws(verified->draws).c_str()
        : different->isFromWitness
            ? " (the trace differs, too: it holds what the module decides as it runs; script that submodule)"
            : "");
  verified->forEach([&](VerifyReport::Kind kind, const VerifyReport::Compared &compared) {
    const bool isWitness = kind == VerifyReport::Kind::Witness;
    double &error = isWitness ? report.witnessError : report.error;
    double &allowed = isWitness ? report.witnessAllowed : report.allowedError;
    // Integers and bools must be equal, so they say nothing about tolerances.
    if (compared.allowed > 0 && compared.error * allowed >= error * compared.allowed) {
      error = compared.error;
      allowed = compared.allowed;
    }
  });
  report.witnesses = verified->witnessNames;
  report.comparedOutputs = verified->outputs.size();
  report.comparedGradients = verified->gradients.size();
  report.comparedWeights = verified->weights.size();
  report.maxAbsError = verified->maxAbsError();
  report.skipped = verified->skipped;
  // Some are the plan's own.
  llvm::copy_if(verified->notes, std::back_inserter(report.notes),
                [&](const std::string &note) { return !llvm::is_contained(report.notes, note); });
  return llvm::Error::success();
}

void Compilation::describe() {
  report.stages = plan->stages.size();
  report.microbatches = plan->schedules.front()->microbatches;
  report.tp = plan->mesh->tp;
  report.dp = plan->mesh->dp;
  double slowest = 0, sum = 0;
  for (auto &prediction : plan->predictions)
    if (prediction->tp_rank == 0) {
      slowest = std::max(slowest, prediction->seconds);
      sum += prediction->seconds;
      report.weightBytes += prediction->weight_bytes;
    }
  report.balance = sum > 0 ? slowest * plan->stages.size() / sum : 1;
  for (auto &note : plan->notes)
    report.notes.push_back(note->text);
  llvm::append_range(report.notes, noteDevicesLeft(options, shape, shape.rankCount()));
  if (int32_t batch = plan->signatures.front()->batch; batch >= 0)
    if (int64_t samples = plan->signatures.front()->symbols[batch]->traced;
        samples < int64_t(report.microbatches) * report.dp)
      report.notes.push_back(
          llvm::formatv("{0} micro-batches{1}, but {2} samples in the example inputs: a batch with fewer "
                        "samples than micro-batches is split into single samples",
                        report.microbatches * uint64_t(report.dp),
                        report.dp > 1 ? " of all data-parallel ranks" : "", samples));
  if (options.gradients && options.gradients->update && !source.isInTrainingMode)
    report.notes.push_back(
        "the model was saved in evaluation mode: dropouts are off, and batch norms keep their "
        "statistics; trace it with cleave-trace --train, or after .train()");
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
  // First, since an unwritable path is best reported before the work.
  if (options.writePlan) {
    auto created = plan::OutputDirectory::create(options.output);
    if (!created)
      return created.takeError();
    directory.emplace(std::move(*created));
  }
  if (auto error = checkIrFolder(options.emitIr, options.output))
    return error;
  auto start = std::chrono::steady_clock::now();
  if (auto error = read())
    return error;
  report.readSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  if (auto error = split())
    return error;
  report.passSeconds = secondsSince(start);
  witnesses.addTo(*plan);
  describe();
  if (directory)
    if (auto error = putInPlace())
      return error;
  report.plan = std::move(plan);
  return std::move(report);
}

llvm::Expected<CompileReport> Compilation::replan(std::optional<int64_t> deviceMemory) {
  options.deviceMemory = silent.deviceMemory = deviceMemory;
  report = CompileReport();
  return run();
}

/// Notes that the batch is not split, since the passes rejected that for this reason.
static void noteWhole(CompileReport &report, const std::string &reason) {
  report.notes.push_back("the batch is not split: " + reason);
}

llvm::Expected<CompileReport> compile(const CompileOptions &options) {
  Compilation compilation(options);
  auto report = compilation.run();
  if (report || !compilation.failedToSplit() || report.errorIsA<UsageError>())
    return report;
  // A model with the traced batch size baked in compiles only for that size.
  std::string reason = toString(report.takeError());
  CompileOptions whole = options;
  whole.microbatches = 1;
  auto second = Compilation(whole).run();
  if (second)
    noteWhole(*second, reason);
  return second;
}

Planner::Planner(CompileOptions options) : options(std::move(options)) {}
Planner::~Planner() = default;

llvm::Expected<CompileReport> Planner::plan(std::optional<int64_t> deviceMemory) {
  if (!first) {
    options.writePlan = false;
    options.emitIr.clear();
    first = std::make_unique<Compilation>(options);
  }
  auto report = first->replan(deviceMemory);
  if (report || !first->failedToSplit() || report.errorIsA<UsageError>())
    return report;
  std::string reason = toString(report.takeError());
  if (!whole) {
    options.microbatches = 1;
    whole = std::make_unique<Compilation>(options);
  }
  auto second = whole->replan(deviceMemory);
  if (second)
    noteWhole(*second, reason);
  return second;
}

} // namespace cleave
