//===- Compile.cpp - From a model file to a plan --------------------------===//
#include "tools/driver/Compile.h"
#include "codegen/EmitPlan.h"
#include "codegen/Shards.h"
#include "codegen/plan/OutputDirectory.h"
#include "codegen/plan/PlanFile.h"
#include "frontend/Import.h"
#include "ir/Schemas.h"
#include "tools/driver/DiagnosticCollector.h"
#include "tools/driver/InputOptions.h"
#include "tools/driver/Mesh.h"
#include "tools/driver/Pipeline.h"
#include "tools/driver/Verify.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"
#include <chrono>

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

private:
  llvm::Error read();
  llvm::Error runPasses();
  llvm::Error write();
  llvm::Error readWeight(llvm::StringRef name, plan::ByteSink sink) const;
  void describe();

  const CompileOptions &options;
  CompileReport report;
  PipelineShape shape;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  std::optional<TorchScriptFile> file;
  ImportedModel model;
  std::unique_ptr<plan::Plan> plan;
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
  auto opened = TorchScriptFile::open(options.model);
  if (!opened)
    return opened.takeError();
  file = std::move(*opened);
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
  if (auto error = runPipeline(*model.module, pipeline, options.emitIr)) {
    auto why = diagnostics.takeError(options.model);
    if (!why)
      return error;
    llvm::consumeError(std::move(error));
    return why;
  }
  auto emitted = emitPlan(*model.module, {"cleave " CLEAVE_VERSION, file->fingerprint, pipeline});
  if (mlir::failed(emitted))
    return diagnostics.takeError(options.model);
  plan = std::move(*emitted);
  return llvm::Error::success();
}

llvm::Error Compilation::readWeight(llvm::StringRef name, plan::ByteSink sink) const {
  const WeightTable::Entry *entry = model.weights.find(name);
  at::Tensor tensor = entry->tensor.contiguous();
  auto *bytes = static_cast<const uint8_t *>(tensor.const_data_ptr());
  constexpr size_t kPiece = 8 << 20;
  for (size_t done = 0; done < tensor.nbytes(); done += kPiece) {
    size_t count = std::min(kPiece, tensor.nbytes() - done);
    if (auto error = sink({bytes + done, count}))
      return error;
    file->release(bytes + done, count);
  }
  return llvm::Error::success();
}

llvm::Error Compilation::write() {
  auto start = std::chrono::steady_clock::now();
  auto directory = plan::OutputDirectory::create(options.output);
  if (!directory)
    return directory.takeError();
  if (auto error = writeShards(*plan, directory->path(), [&](llvm::StringRef name, plan::ByteSink sink) {
        return readWeight(name, sink);
      }))
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
  if (options.verify) {
    start = std::chrono::steady_clock::now();
    auto verified = verify({directory->path(), options.model, options.inputsFile, {}, options.libraries});
    if (!verified)
      return verified.takeError();
    report.verifySeconds = secondsSince(start);
    for (auto &output : verified->outputs)
      if (!output.ok)
        return llvm::createStringError("%s: the plan differs from the original in %s%s%s: found an error of %g, allowed "
                                       "%g; no plan was written",
                                       options.model.c_str(), output.name.c_str(), output.sizes.empty() ? "" : " at ",
                                       output.sizes.c_str(), output.maxAbsError, output.allowed);
  }
  return directory->commit();
}

void Compilation::describe() {
  report.stages = plan->stages.size();
  double slowest = 0, sum = 0;
  for (auto &prediction : plan->predictions) {
    slowest = std::max(slowest, prediction->seconds);
    sum += prediction->seconds;
    report.weightBytes += prediction->weight_bytes;
  }
  report.balance = sum > 0 ? slowest * plan->predictions.size() / sum : 1;
  for (auto &note : plan->notes)
    report.notes.push_back(note->text);
}

llvm::Expected<CompileReport> Compilation::run() {
  auto start = std::chrono::steady_clock::now();
  if (auto error = read())
    return error;
  report.readSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  if (auto error = runPasses())
    return error;
  report.passSeconds = secondsSince(start);
  if (auto error = write())
    return error;
  describe();
  return report;
}

llvm::Expected<CompileReport> compile(const CompileOptions &options) { return Compilation(options).run(); }

} // namespace cleave
