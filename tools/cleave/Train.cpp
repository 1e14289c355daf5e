//===- Train.cpp - `cleave train` -----------------------------------------===//
#include "codegen/plan/text/JsonText.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/TensorFile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/RunSandbox.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/run/RankProcess.h"
#include "tools/cleave/run/RunFiles.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/Output.h"
#include "tools/cleave/train/TrainReport.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cfloat>
#include <chrono>
#include <cmath>
#include <memory>

namespace cleave {

using llvm::Error;
using runtime::StepResult;
using runtime::Trainer;

namespace {
struct TrainOptions {
  std::string plan, data, output, checkpoint, schedule = "constant", sandbox = "auto";
  bool resumes = false, json = false;
  uint64_t steps = 0, checkpointEvery = 0, logEvery = 10, timeoutSeconds = 30;
  runtime::TrainerOptions trainer;
};
} // namespace

static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Process 0 alone has tensors, writes files, logs and prints.
static bool isFirst(const Trainer &trainer) { return trainer.session().process() == 0; }

static Error writeInFirst(const Trainer &trainer, const std::string &file,
                          llvm::Expected<std::vector<runtime::NamedTensor>> tensors) {
  if (!tensors)
    return tensors.takeError();
  return isFirst(trainer) ? prefixWithRank(trainer.session(), runtime::writeTensors(file, *tensors))
                          : Error::success();
}

static void log(const StepResult &step, uint64_t all, double unitsPerSecond, llvm::StringRef unit) {
  llvm::errs() << llvm::formatv("step {0}/{1}: loss {2:f4}, gradient norm {3:f4}, learning rate {4:E2}, "
                                "{5:f0} {6}/s{7}\n",
                                step.number, all, step.loss, step.gradientNorm, step.learningRate,
                                unitsPerSecond, unit, step.isSkipped ? ", skipped" : "");
}

static Error trainSteps(Trainer &trainer, const TrainingData &data, const TrainOptions &options,
                        TrainReport &report) {
  const auto start = std::chrono::steady_clock::now();
  auto logged = start;
  uint64_t sinceLog = 0;
  while (trainer.completedSteps() < options.steps) {
    const auto begin = std::chrono::steady_clock::now();
    auto step = trainer.step(data.batch(trainer.completedSteps()));
    if (!step)
      return step.takeError();
    report.steps.push_back(*step);
    report.stepSeconds.push_back(secondsSince(begin));
    ++sinceLog;
    if (isFirst(trainer) && (step->number % options.logEvery == 0 || step->number == options.steps)) {
      log(*step, options.steps, data.unitsPerBatch() * sinceLog / std::max(secondsSince(logged), 1e-9),
          data.unit());
      logged = std::chrono::steady_clock::now();
      sinceLog = 0;
    }
    const bool isDue = options.checkpointEvery > 0 && step->number % options.checkpointEvery == 0;
    if (isDue && step->number < options.steps)
      if (Error error = writeInFirst(trainer, options.checkpoint, trainer.checkpoint()))
        return error;
  }
  report.seconds = secondsSince(start);
  report.completedSteps = trainer.completedSteps();
  return Error::success();
}

static Error resume(Trainer &trainer, const TrainOptions &options) {
  if (!options.resumes)
    return Error::success();
  auto tensors = runtime::readTensors(options.checkpoint);
  if (!tensors)
    return tensors.takeError();
  if (Error error = trainer.restore(*tensors))
    return llvm::createStringError(options.checkpoint + ": " + llvm::toString(std::move(error)));
  if (trainer.completedSteps() > options.steps)
    return llvm::createStringError(options.checkpoint + ": found a checkpoint of step " +
                                   llvm::Twine(trainer.completedSteps()) + ", expected at most --steps " +
                                   llvm::Twine(options.steps));
  return Error::success();
}

/// Writes the trained weights and the last checkpoint: each even if the other one fails.
static Error writeResults(Trainer &trainer, const TrainOptions &options) {
  Error error = Error::success();
  if (!options.output.empty())
    error = writeInFirst(trainer, options.output, trainer.weights());
  if (!options.checkpoint.empty())
    error =
        llvm::joinErrors(std::move(error), writeInFirst(trainer, options.checkpoint, trainer.checkpoint()));
  return error;
}

static Error checkOptions(const TrainOptions &options) {
  if (options.checkpoint.empty() && (options.checkpointEvery > 0 || options.resumes))
    return wrongUsage(llvm::Twine(options.resumes ? "--resume" : "--checkpoint-every") +
                      ": found no --checkpoint, expected its file");
  if (options.trainer.learningRate.warmupSteps > options.steps)
    return wrongUsage("--warmup " + llvm::Twine(options.trainer.learningRate.warmupSteps) +
                      ": expected at most --steps " + llvm::Twine(options.steps));
  if (isSameFile(options.output, options.checkpoint))
    return wrongUsage("--output " + options.output + ": is the file of --checkpoint; give another name");
  return Error::success();
}

static Error checkFiles(const TrainOptions &options) {
  const RunFiles files{
      .plan = options.plan, .inputs = options.data, .outputs = "", .trace = "", .inputsOption = "--data"};
  for (auto [option, file] :
       {std::pair("--output", &options.output), std::pair("--checkpoint", &options.checkpoint)})
    if (Error error = checkWrittenFile(option, *file, files))
      return error;
  return Error::success();
}

/// What must be the same in all processes; paths may differ between hosts.
static std::string commonOptions(const Trainer &trainer, const TrainOptions &options,
                                 const TrainingData &data) {
  const runtime::LearningRateSchedule &rate = options.trainer.learningRate;
  std::string given =
      llvm::formatv("--steps {0} --lr {1:E8} --lr-schedule {2} --warmup {3} --seed {4}", options.steps,
                    rate.peak, options.schedule, rate.warmupSteps, options.trainer.seed);
  if (options.trainer.skipNonFinite)
    given += " --skip-nonfinite";
  if (options.trainer.session.tf32)
    given += " --tf32";
  if (!options.output.empty())
    given += " --output";
  if (!options.checkpoint.empty())
    given += " --checkpoint --checkpoint-every " + std::to_string(options.checkpointEvery);
  if (options.resumes)
    given += " --resume from step " + std::to_string(trainer.completedSteps());
  return given + " --data of " + std::to_string(data.batches()) + " batches";
}

/// Trains, and writes what was asked for. Process 0 writes and prints.
static Error trainAndWrite(Trainer &trainer, const TrainOptions &options) {
  runtime::Session &session = trainer.session();
  if (isFirst(trainer))
    if (Error error = checkFiles(options))
      return prefixWithRank(trainer.session(), std::move(error));
  auto data = TrainingData::read(trainer, options.data);
  if (!data)
    return prefixWithRank(trainer.session(), data.takeError());
  if (Error error = resume(trainer, options))
    return prefixWithRank(trainer.session(), std::move(error));
  if (Error error = agreeOnOptions(session, commonOptions(trainer, options, *data)))
    return error;
  if (isFirst(trainer) && options.output.empty() && options.checkpoint.empty())
    llvm::errs() << "note: neither --output nor --checkpoint is given, so that the weights are not kept\n";
  TrainReport report;
  if (Error error = trainSteps(trainer, *data, options, report))
    return error;
  Error written = writeResults(trainer, options);
  if (Error error = report.gatherDevices(session))
    return llvm::joinErrors(std::move(written), std::move(error));
  if (!isFirst(trainer))
    return written;
  if (options.json)
    llvm::outs() << plan::jsonText(report.toJson(*data), /*indent=*/2) << "\n";
  else
    report.printText(llvm::outs(), *data);
  return llvm::joinErrors(std::move(written), finishOutput());
}

static Error train(TrainOptions options) {
  runtime::SessionOptions &session = options.trainer.session;
  if (Error error = runtime::launchFromEnvironment().moveInto(session.launch))
    return error;
  using Kind = runtime::LearningRateSchedule::Kind;
  options.trainer.learningRate.totalSteps = options.steps;
  options.trainer.learningRate.kind = options.schedule == "linear"   ? Kind::Linear
                                      : options.schedule == "cosine" ? Kind::Cosine
                                                                     : Kind::Constant;
  session.timeout = std::chrono::seconds(options.timeoutSeconds);
  session.onTimeout = endWithError;
  if (Error error = checkOptions(options))
    return error;
  SandboxFiles files{options.plan, {options.data}, {options.output, options.checkpoint}};
  if (options.resumes)
    files.read.push_back(options.checkpoint);
  auto sandbox = RunSandbox::prepare(options.sandbox, files, session);
  if (!sandbox)
    return sandbox.takeError();
  if (session.launch) {
    session.onRendezvous = [&] { return sandbox->enter(session.launch); };
    auto open = [&](std::function<void(const std::string &)> failed) {
      session.onFailure = std::move(failed);
      return Trainer::open(options.plan, options.trainer);
    };
    runAsRank<Trainer>(session.launch->rank, open,
                       [&](Trainer &trainer) { return trainAndWrite(trainer, options); });
    return Error::success();
  }
  if (Error error = sandbox->enter(session.launch))
    return error;
  auto trainer = Trainer::open(options.plan, options.trainer);
  if (!trainer)
    return trainer.takeError();
  return trainAndWrite(**trainer, options);
}

static void addTrainingOptions(CLI::App *command, TrainOptions &options) {
  command
      ->add_option("--data", options.data,
                   "Inputs by name, a safetensors file; batches are rows of dimension 0, one after the other")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  command->add_option("--steps", options.steps, "Steps of the whole training")
      ->required()
      ->transform(wholeNumber(1, 1000000000))
      ->type_name("N");
  command->add_option("--lr", options.trainer.learningRate.peak, "Peak learning rate")
      ->required()
      ->check(CLI::Validator(
          [](const std::string &text) {
            double rate;
            const bool isRate = !llvm::StringRef(text).getAsDouble(rate) && rate >= 0 && rate <= FLT_MAX;
            return isRate ? "" : "found \"" + text + "\", expected a number from 0 on, in float32";
          },
          ""))
      ->type_name("RATE");
  command
      ->add_option("--lr-schedule", options.schedule,
                   "After --warmup: constant, or falling to 0: linear, cosine")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}).description(""))
      ->capture_default_str()
      ->type_name("NAME");
  command
      ->add_option("--warmup", options.trainer.learningRate.warmupSteps,
                   "Warm-up steps: the rate rises from 0 (0)")
      ->transform(wholeNumber(0, 1000000000))
      ->type_name("N");
  command->add_option("--seed", options.trainer.seed, "Random seed (dropout)")
      ->transform(wholeNumber(0, INT64_MAX))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--skip-nonfinite", options.trainer.skipNonFinite,
                    "Go on after steps whose loss or gradients are not finite, which change no weight");
}

static void addFileOptions(CLI::App *command, TrainOptions &options) {
  command
      ->add_option("--output", options.output,
                   "Where to write the trained weights, a safetensors file with the model's names")
      ->check(notEmpty("a file"))
      ->type_name("FILE");
  command
      ->add_option("--checkpoint", options.checkpoint,
                   "Where to write weights, optimizer state and step count, at the end")
      ->check(notEmpty("a file"))
      ->type_name("FILE");
  command->add_option("--checkpoint-every", options.checkpointEvery, "Write it every N steps, too")
      ->transform(wholeNumber(1, 1000000000))
      ->type_name("N");
  command->add_flag("--resume", options.resumes, "Go on from the checkpoint");
}

void addTrainCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App *command = app.add_subcommand("train", "Train the model of a plan that compile --train has made");
  command->add_option("plan", options->plan, "The plan's folder")
      ->required()
      ->check(fileName())
      ->type_name("FOLDER");
  addTrainingOptions(command, *options);
  addFileOptions(command, *options);
  addDeviceNames(command, options->trainer.session.devices,
                 "One device a rank, cpu:N or cuda:N: cpu:0,cuda:0; cuda: a GPU each",
                 /*acceptsBareCuda=*/true);
  addLibraries(command, options->trainer.session.libraries);
  addAllowedOperators(command, options->trainer.session.allowedOperators);
  command->add_flag("--tf32", options->trainer.session.tf32, "Let GPUs multiply float32 in TF32");
  command->add_option("--log-every", options->logEvery, "Steps between two lines on stderr")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--timeout", options->timeoutSeconds,
                   "Seconds that a step may take, and ranks wait for each other")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--sandbox", options->sandbox,
                   "Let the plan reach no files, processes or network: auto, where no GPU is used")
      ->check(CLI::IsMember({"auto", "on", "off"}).description(""))
      ->capture_default_str()
      ->type_name("auto|on|off");
  command->add_flag("--json", options->json, "Report as one JSON object");
  command->footer(
      "example:\n  cleave train gpt2.plan --data tokens.safetensors --steps 1000 --lr 3e-4 "
      "--lr-schedule cosine --warmup 100 --output trained.safetensors\n"
      "one process per rank, also by srun and mpirun:\n"
      "  torchrun --nproc-per-node 2 --no-python cleave train gpt2.plan --data tokens.safetensors "
      "--steps 1000 --lr 3e-4");
  command->callback([options, &chosen] { chosen = {[options] { return train(*options); }, {}}; });
}

} // namespace cleave
