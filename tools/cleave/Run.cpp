//===- Run.cpp - `cleave run` ---------------------------------------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/text/JsonText.h"
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/RunSandbox.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/run/RankProcess.h"
#include "tools/cleave/run/RequestStream.h"
#include "tools/cleave/run/RunCapture.h"
#include "tools/cleave/run/RunFiles.h"
#include "tools/cleave/run/RunInputs.h"
#include "tools/cleave/run/RunMeasurement.h"
#include "tools/cleave/run/RunReport.h"
#include "tools/cleave/run/RunTrace.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/Output.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <memory>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::NamedTensor;
using runtime::Session;

namespace {
struct RunOptions {
  RunFiles files;
  /// Name; empty: the first.
  std::string signature;
  RunCapture capture;
  uint64_t repeat = 1;
  uint64_t timeoutSeconds = 30, loadTimeoutSeconds = 3600;
  std::string autocast;
  runtime::SessionOptions session;
  bool json = false, stream = false;
  std::string sandbox = "auto";
};
} // namespace

/// Micro-batches of a request on a data-parallel rank. A batch with fewer samples than the plan has
/// micro-batches has fewer.
static int64_t microbatchesOf(const plan::Plan &plan, uint32_t index, llvm::ArrayRef<at::Tensor> inputs) {
  int64_t microbatches = plan::microbatchesOfAll(plan, scheduleOf(plan, index));
  const plan::Signature &signature = *plan.signatures[index];
  if (microbatches > 1)
    for (auto [tensor, input] : llvm::zip(inputs, signature.inputs))
      for (auto [dim, size] : llvm::enumerate(input->type->dims))
        if (plan::asSymbol(*size) == uint32_t(signature.batch))
          microbatches = std::min(microbatches, tensor.size(dim));
  return llvm::divideCeil(microbatches, plan.mesh->dp);
}

/// The outputs as they are written: of one request, or of a stream. Nothing in processes that do not get
/// them.
static Expected<std::vector<NamedTensor>> nameOutputs(const Session &session, uint32_t index, bool isStream,
                                                      Requests &outputs) {
  std::vector<NamedTensor> named;
  if (session.process() != session.outputProcess(index))
    return named;
  const plan::Signature &signature = *session.plan().signatures[index];
  if (isStream)
    if (Error error = joinRequests(signature, outputs).moveInto(outputs.front()))
      return error;
  // A request that stops has none.
  if (!outputs.front().empty())
    for (auto [tensor, output] : llvm::zip(outputs.front(), signature.outputs))
      named.push_back({output->name, tensor});
  return named;
}

/// Writes the files in the process that has the outputs; the others send it their traces.
static Error writeFiles(Session &session, uint32_t signature, const RunFiles &files, const TraceSpool *trace,
                        llvm::ArrayRef<NamedTensor> outputs) {
  if (session.process() != session.outputProcess(signature))
    return trace ? prefixWithRank(session, writeRunTrace(session, *trace, nullptr)) : Error::success();
  return prefixWithRank(session, writeRunFiles(files, outputs, [&](plan::AtomicFile &file) {
                          return writeRunTrace(session, *trace, &file);
                        }));
}

/// Prints the measurements of all processes, in the first one.
static Error report(Session &session, const RunOptions &options, const Measurement &measurement,
                    llvm::ArrayRef<NamedTensor> outputs, int64_t microbatches) {
  auto parts = session.gather(RunReport::partOf(measurement, outputs), 0);
  if (!parts)
    return parts.takeError();
  if (session.process() != 0)
    return Error::success();
  auto merged = RunReport::merge(session.plan(), measurement, *parts, microbatches);
  if (!merged)
    return merged.takeError();
  if (options.json)
    llvm::outs() << plan::jsonText(merged->toJson(), /*indent=*/2) << "\n";
  else
    merged->printText(llvm::outs());
  return finishOutput();
}

/// Options that must be the same in all processes; paths may differ between hosts.
static std::string commonOptions(const RunOptions &options) {
  std::string given = "--repeat " + std::to_string(options.repeat);
  if (!options.signature.empty())
    given += " --signature " + options.signature;
  if (options.stream)
    given += " --stream";
  if (!options.files.outputs.empty())
    given += " --outputs";
  if (!options.files.trace.empty())
    given += " --trace";
  for (const std::string &point : options.capture.points)
    given += " --capture " + point;
  if (!options.capture.stopAfter.empty())
    given += " --stop-after " + options.capture.stopAfter;
  if (!options.capture.replacements.empty())
    given += " --replace";
  if (!options.autocast.empty())
    given += " --autocast " + options.autocast;
  if (options.session.tf32)
    given += " --tf32";
  if (options.session.beyondWitnesses)
    given += " --beyond-witnesses";
  if (options.session.checkTypes)
    given += " --check-types";
  return given;
}

/// With several processes, only then is it known which one writes.
static Error checkProcesses(Session &session, const RunOptions &options, uint32_t signature) {
  if (Error error = agreeOnOptions(session, commonOptions(options)))
    return error;
  if (session.process() == session.outputProcess(signature))
    if (Error error = checkRunFiles(options.files))
      return prefixWithRank(session.process(), std::move(error));
  return Error::success();
}

/// Where this process stores its trace until all are done; null without --trace.
static Expected<std::unique_ptr<TraceSpool>> openSpool(const RunFiles &files) {
  if (files.trace.empty())
    return nullptr;
  return TraceSpool::create(files.trace);
}

/// \param spool  null without --trace.
static Error runSession(Session &session, const RunOptions &options, TraceSpool *spool) {
  uint32_t signature = 0;
  if (!options.signature.empty())
    if (Error error = runtime::signatureNamed(session.plan(), options.signature, options.files.plan)
                          .moveInto(signature))
      return prefixWithRank(session, std::move(error));
  if (session.processes() > 1)
    if (Error error = checkProcesses(session, options, signature))
      return error;
  auto keepTrace = [&] {
    return spool ? prefixWithRank(session, spool->append(session.takeTrace())) : Error::success();
  };
  auto inputs = readInputs(session, signature, options.files.inputs, options.stream);
  if (!inputs)
    return inputs.takeError();
  // CUDA graphs are captured in the third request. A training step changes the weights.
  const bool trains = llvm::any_of(session.plan().weights, [](auto &weight) { return weight->trainable; });
  const int warmUps = trains ? 0 : options.session.cudaGraphs ? 3 : 1;
  CapturedRun run;
  if (options.capture.isWanted()) {
    if (Error error = capture(session, signature, inputs->front(), options.capture).moveInto(run))
      return error;
    if (Error error = keepTrace())
      return error;
  } else if (Error error = measure(session, signature, *inputs, options.repeat, warmUps, keepTrace)
                               .moveInto(run.measurement)) {
    return error;
  }
  auto outputs = nameOutputs(session, signature, options.stream, run.measurement.outputs);
  if (!outputs)
    return outputs.takeError();
  llvm::StringSet<> names;
  for (const runtime::NamedTensor &output : *outputs)
    names.insert(output.name);
  for (runtime::NamedTensor &value : run.values) {
    // A module may be called as an output is.
    while (!names.insert(value.name).second)
      value.name.insert(0, "captured.");
    outputs->push_back(std::move(value));
  }
  if (Error error = writeFiles(session, signature, options.files, spool, *outputs))
    return error;
  for (const runtime::DeviceStatistics &device : session.statistics())
    for (const std::string &stage : device.eager)
      llvm::errs() << "note: rank " << device.rank << " runs without a CUDA graph: " << stage << "\n";
  return report(session, options, run.measurement, *outputs,
                microbatchesOf(session.plan(), signature, inputs->front()));
}

static Error run(RunOptions options) {
  if (Error error = runtime::launchFromEnvironment().moveInto(options.session.launch))
    return error;
  options.session.trace = !options.files.trace.empty();
  options.session.timeout = std::chrono::seconds(options.timeoutSeconds);
  options.session.loadTimeout = std::chrono::seconds(options.loadTimeoutSeconds);
  options.session.onTimeout = endWithError;
  if (!options.autocast.empty())
    options.session.autocast = options.autocast == "bf16" ? at::kBFloat16 : at::kHalf;
  // Before the sandbox, in which no file can be created.
  auto spool = openSpool(options.files);
  if (!spool)
    return spool.takeError();
  auto sandbox = RunSandbox::prepare(options.sandbox,
                                     {options.files.plan,
                                      {options.files.inputs, options.capture.replacements},
                                      {options.files.outputs, options.files.trace}},
                                     options.session);
  if (!sandbox)
    return sandbox.takeError();
  if (options.session.launch) {
    options.session.onRendezvous = [&] { return sandbox->enter(options.session.launch); };
    auto open = [&](std::function<void(const std::string &)> failed) {
      options.session.onFailure = std::move(failed);
      return Session::open(options.files.plan, options.session);
    };
    runAsRank<Session>(options.session.launch->rank, open,
                       [&](Session &session) { return runSession(session, options, spool->get()); });
    return Error::success();
  }
  if (Error error = sandbox->enter(options.session.launch))
    return error;
  if (Error error = checkRunFiles(options.files))
    return error;
  auto session = Session::open(options.files.plan, options.session);
  if (!session)
    return session.takeError();
  if (Error error = runSession(**session, options, spool->get())) {
    // Closing it would wait for kernels of other ranks; the process ends instead.
    (void)session->release();
    return error;
  }
  return Error::success();
}

static void addFilesAndSteps(CLI::App *command, RunOptions &options) {
  command->add_option("--inputs", options.files.inputs, "The inputs by name, a safetensors file")
      ->type_name("FILE");
  command->add_option("--signature", options.signature, "Which of the plan's signatures to run (the first)")
      ->check(notEmpty("a signature's name"))
      ->type_name("NAME");
  command->add_option("--outputs", options.files.outputs, "Where to write the outputs, a safetensors file")
      ->check(notEmpty("a file"))
      ->type_name("FILE");
  command
      ->add_option("--trace", options.files.trace,
                   "Where to write what each device did when, for ui.perfetto.dev")
      ->check(notEmpty("a file"))
      ->type_name("FILE");
  command
      ->add_option("--repeat", options.repeat,
                   "Steps to measure (requests, or streams), after one request to warm up")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--timeout", options.timeoutSeconds,
                   "Seconds that a step may take, and ranks wait for each other")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--load-timeout", options.loadTimeoutSeconds,
                   "Most seconds for loading the plan, and for waiting for ranks that still load it")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
}

/// \param others  options that mean nothing for a single request.
static void addCaptureOptions(CLI::App *command, RunCapture &capture, llvm::ArrayRef<CLI::Option *> others) {
  CLI::Option *points =
      repeatable(command->add_option("--capture", capture.points,
                                     "Outputs of modules for --outputs, too, with * and ?; one request runs"))
          ->needs(command->get_option("--outputs"))
          ->check(notEmpty("a pattern"))
          ->type_name("PATTERN");
  CLI::Option *stop = command
                          ->add_option("--stop-after", capture.stopAfter,
                                       "The module after which the request ends, without the model's outputs")
                          ->check(notEmpty("a module"))
                          ->type_name("MODULE");
  CLI::Option *replace =
      command
          ->add_option("--replace", capture.replacements,
                       "Values that take the place of outputs of modules, by name, a safetensors file")
          ->check(notEmpty("a file"))
          ->type_name("FILE");
  for (CLI::Option *option : {points, stop, replace})
    for (CLI::Option *other : others)
      option->excludes(other);
}

void addRunCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("run", "Run a plan on inputs from a file");
  command->add_option("plan", options->files.plan, "The plan's folder")
      ->required()
      ->check(fileName())
      ->type_name("FOLDER");
  addFilesAndSteps(command, *options);
  addDeviceNames(command, options->session.devices,
                 "One device a rank, cpu:N or cuda:N: cpu:0,cuda:0; cuda: a GPU each",
                 /*acceptsBareCuda=*/true);
  addLibraries(command, options->session.libraries);
  addAllowedOperators(command, options->session.allowedOperators);
  command
      ->add_option("--autocast", options->autocast, "Compute in bf16 or fp16 what libtorch's autocast does")
      ->check(CLI::IsMember({"bf16", "fp16"}).description(""))
      ->type_name("bf16|fp16");
  command->add_flag("--tf32", options->session.tf32, "Let GPUs multiply float32 in TF32");
  command->add_flag("--cuda-graphs", options->session.cudaGraphs, "Run stages on GPUs as CUDA graphs");
  CLI::Option *stream =
      command->add_flag("--stream", options->stream,
                        "Inputs and outputs have one more dimension in front: requests one after the other");
  addCaptureOptions(command, options->capture, {command->get_option("--repeat"), stream});
  command->add_flag("--beyond-witnesses", options->session.beyondWitnesses,
                    "Take sizes at which the trace was not compared with the module, too");
  command->add_flag("--check-types", options->session.checkTypes,
                    "Compare every value with the type that the plan predicts");
  command
      ->add_option("--sandbox", options->sandbox,
                   "Let the plan reach no files, processes or network: auto, where no GPU is used")
      ->check(CLI::IsMember({"auto", "on", "off"}).description(""))
      ->capture_default_str()
      ->type_name("auto|on|off");
  command->add_flag("--json", options->json, "Report as one JSON object");
  command->footer(
      "example:\n  cleave run gpt2.plan --inputs gpt2.inputs.safetensors --outputs outputs.safetensors\n"
      "one process per rank, also by srun and mpirun:\n"
      "  torchrun --nproc-per-node 2 --no-python cleave run gpt2.plan --inputs gpt2.inputs.safetensors");
  command->callback([options, &chosen] { chosen = {[options] { return run(*options); }, {}}; });
}

} // namespace cleave
