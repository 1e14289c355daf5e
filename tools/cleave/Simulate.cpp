//===- Simulate.cpp - `cleave simulate` -----------------------------------===//
#include "codegen/plan/PlanFile.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/files/OutputDirectory.h"
#include "codegen/plan/text/Printable.h"
#include "partitioner/machine/MachineFile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/ForecastJson.h"
#include "tools/cleave/PlanOptions.h"
#include "tools/cleave/SimulateTraining.h"
#include "tools/cleave/process/CrashReport.h"
#include "tools/cleave/process/Supervised.h"
#include "tools/cleave/run/RunFiles.h"
#include "tools/cleave/run/TraceFile.h"
#include "tools/cleave/text/Candidates.h"
#include "tools/cleave/text/MemoryLimitReports.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/cleave/text/Wording.h"
#include "tools/driver/base/Forecast.h"
#include "tools/driver/base/InputOptions.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <algorithm>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

namespace {
struct SimulateOptions : CompileOptions {
  std::string trace;
  /// Names of the plan options that were given, such as `--machine`.
  std::vector<std::string> given;
  /// Several: one report for each.
  std::vector<int64_t> deviceMemories;
  bool isTraining = false;
  TrainingChoice choice;
  /// `model` is a plan's folder.
  bool isPlan() const { return llvm::sys::fs::is_directory(model); }
};

struct SimulateReport {
  std::unique_ptr<plan::Plan> plan;
  std::vector<std::string> notes;
  PlanForecast forecast;
};
} // namespace

//===- A plan and what it takes -------------------------------------------===//

/// Name of the machine that the plan was compiled for: `cpu:4`, or a file's name.
static std::string machineOf(const plan::Plan &plan) {
  StringRef recorded = StringRef(plan.pass_pipeline).split(" machine=").second;
  if (recorded.empty())
    return "cpu:" + std::to_string(plan.mesh->pp * plan.mesh->dp * plan.mesh->tp);
  return recorded.take_until([](char c) { return c == ' ' || c == '}'; }).str();
}

/// Fails unless the option's machine is the one that the plan was compiled for; names may differ.
static Error checkMachine(const SimulateOptions &options, const plan::Plan &plan) {
  Expected<Machine> machine = Machine::load(options.machine);
  if (!machine)
    return machine.takeError();
  if (checksumOf(*machine) == plan.machine)
    return Error::success();
  const std::string found = machineOf(plan);
  const bool isNamesake = llvm::sys::path::filename(options.machine) == found;
  return llvm::createStringError(
      "--machine " + options.machine + ": " + options.model + " was compiled for " +
      (isNamesake ? "another machine of this name" : found) +
      ", and has predictions for that alone; simulate its model instead, with the options of compile");
}

/// Fails on options that contradict the plan, which is already compiled.
static Error checkAgreement(const SimulateOptions &options, const plan::Plan &plan) {
  const plan::Schedule &schedule = scheduleOf(plan, 0);
  for (StringRef name : options.given) {
    std::string asked, found;
    if (name == "--schedule")
      std::tie(asked, found) = std::pair(options.schedule, schedule.name);
    else if (name == "--microbatches")
      std::tie(asked, found) =
          std::pair(*options.microbatches ? std::to_string(*options.microbatches) : "auto",
                    std::to_string(schedule.microbatches));
    else if (name == "--machine") {
      if (Error error = checkMachine(options, plan))
        return error;
    } else
      return wrongUsage(name + ": is an option of compilation, and " + options.model +
                        " is compiled already; give its model instead");
    if (asked != found && asked != "auto")
      return llvm::createStringError(
          name + " " + asked + ": " + options.model + " was compiled for " + found +
          ", and has predictions for that alone; simulate its model instead, with the options of compile");
  }
  return Error::success();
}

static Expected<SimulateReport> readPlan(const SimulateOptions &options) {
  SimulateReport report;
  if (Error error = checkScheduleName(options.schedule))
    return error;
  Expected<plan::LoadedPlan> loaded = plan::readPlan(options.model);
  if (!loaded)
    return loaded.takeError();
  report.plan = std::move(loaded->plan);
  if (Error error = checkAgreement(options, *report.plan))
    return error;
  if (Error error = forecastOf(*report.plan, options.model).moveInto(report.forecast))
    return error;
  return report;
}

static Expected<SimulateReport> planModel(Planner &planner, const SimulateOptions &options,
                                          std::optional<int64_t> deviceMemory) {
  Expected<CompileReport> compiled = planner.plan(deviceMemory);
  if (!compiled)
    return compiled.takeError();
  SimulateReport report;
  report.plan = std::move(compiled->plan);
  report.notes = std::move(compiled->notes);
  if (Error error = forecastOf(*report.plan, options.model).moveInto(report.forecast))
    return error;
  return report;
}

/// The trace, as a run of the plan would write it.
static std::string traceOf(const SimulateReport &report) {
  std::vector<TraceRow> rows;
  for (auto [rank, simulated] : llvm::enumerate(report.forecast.simulation.ranks))
    rows.push_back(
        traceRowOf(simulated, rank, deviceOf(*report.plan, rank), report.forecast.devices[rank].memory));
  return formatTrace(rows, modulePathsOf(*report.plan));
}

/// Fails if the trace could not be written, or would replace a file that is read.
static Error checkFiles(const SimulateOptions &options) {
  auto inputs = readSignatureFiles(options.inputsFiles);
  if (!inputs)
    return inputs.takeError();
  if (inputs->empty())
    inputs->emplace_back();
  for (const SignatureFile &file : *inputs)
    if (Error error = checkRunFiles({options.model, file.path, "", options.trace}))
      return error;
  return Error::success();
}

static Expected<SimulateReport> simulatePlan(const SimulateOptions &options) {
  if (Error error = checkFiles(options))
    return error;
  Planner planner(options);
  Expected<SimulateReport> report =
      options.isPlan() ? readPlan(options) : planModel(planner, options, options.deviceMemory);
  if (!report)
    return report;
  if (!options.trace.empty())
    if (Error error = plan::writeFileAtomically(options.trace, traceOf(*report)))
      return error;
  return report;
}

static Error checkOneTrace(const SimulateOptions &options) {
  return options.trace.empty()
             ? Error::success()
             : wrongUsage("--trace: shows one plan, and --device-memory asks for several; give one size");
}

static Expected<std::vector<MemoryLimitReport<SimulateReport>>>
simulateLimits(const SimulateOptions &options) {
  if (Error error = checkOneTrace(options))
    return error;
  Planner planner(options);
  return planEach<SimulateReport>(options.deviceMemories, [&](int64_t deviceMemory) {
    return planModel(planner, options, deviceMemory);
  });
}

//===- Reporting ----------------------------------------------------------===//

static llvm::json::Object toJson(const SimulateOptions &, const SimulateReport &report) {
  using llvm::json::Array;
  using llvm::json::Object;
  Array devices, stages;
  for (auto [rank, device] : llvm::enumerate(report.forecast.devices))
    devices.push_back(Object{{"name", deviceOf(*report.plan, rank)},
                             {"stages", Array(device.stages)},
                             {"busy_seconds", device.busySeconds},
                             {"idle_seconds", device.idleSeconds},
                             {"bubble", device.bubble()},
                             {"weight_bytes", device.weightBytes},
                             {"peak_bytes", device.peakBytes},
                             {"memory_bytes", device.memoryBytes},
                             {"memory", toJson(device.memory)}});
  for (auto [index, stage] : llvm::enumerate(report.forecast.costs.stages))
    stages.push_back(Object{
        {"index", int64_t(index)}, {"seconds", stage.forward}, {"activation_bytes", stage.activationBytes}});
  return Object{{"schedule", report.forecast.schedule.name},
                {"microbatches", report.forecast.schedule.microbatches},
                {"seconds", report.forecast.simulation.seconds},
                {"bubble", sumOf(report.forecast.devices).bubble()},
                {"devices", std::move(devices)},
                {"stages", std::move(stages)},
                {"transfers", toJson(report.forecast.costs.transfers)},
                {"candidates", toJson(report.plan->candidates)},
                // Their name in 0.1, until 0.3.
                {"alternatives", toJson(report.plan->candidates)},
                {"notes", Array(report.notes)}};
}

static void printText(llvm::raw_ostream &out, const SimulateOptions &options, const SimulateReport &report) {
  out << formatv("{0}: {1}, {2}, {3} ms a step\n", plan::printable(options.model),
                 report.forecast.schedule.name,
                 microbatchesText(*report.plan, report.forecast.schedule.microbatches),
                 milliseconds(report.forecast.simulation.seconds));
  for (const std::string &note : report.notes)
    out << "note: " << plan::printable(note) << "\n";
  out << "\n";
  TextTable table(
      {Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right});
  table.add({"device", "stages", "busy ms", "idle ms", "bubble %", "weights MB", "peak MB"});
  auto add = [&](const std::string &name, const DeviceForecast &device, const std::string &peak) {
    auto stages = llvm::map_range(device.stages, [](uint32_t stage) { return std::to_string(stage); });
    table.add({name, llvm::join(stages, ", "), milliseconds(device.busySeconds),
               milliseconds(device.idleSeconds), formatv("{0:f1}", device.bubble() * 100),
               megabytes(device.weightBytes), peak});
  };
  for (auto [rank, device] : llvm::enumerate(report.forecast.devices))
    add(deviceOf(*report.plan, rank), device, megabytes(device.peakBytes));
  add("total", sumOf(report.forecast.devices), "");
  table.print(out);
  printCandidates(out, report.plan->candidates);
}

//===- The command --------------------------------------------------------===//

static void addTrainingOptions(CLI::App *command, SimulateOptions &options) {
  CLI::Option *train =
      command->add_flag("--train", options.isTraining, "A step of training, forward and backward");
  command
      ->add_option("--recompute", options.choice.recompute,
                   "Activations that the backward pass recomputes: none, selective, full, auto")
      ->needs(train)
      ->type_name("WHAT");
  command
      ->add_flag("--sequence-parallel", options.choice.sequenceParallel,
                 "Sequence parallelism (Megatron-LM): split what tensor-parallel ranks would hold whole")
      ->needs(train);
  command
      ->add_option(
          "--zero", options.choice.zero,
          "ZeRO stage: shard over data-parallel ranks 1 optimizer states, 2 gradients, 3 weights too")
      ->transform(wholeNumber(0, kMaxZeroStage))
      ->needs(train)
      ->type_name("0-3");
  command
      ->add_option("--interleave", options.choice.interleave,
                   "Stages of a device, with --schedule interleaved (2)")
      ->needs(train)
      ->type_name("N");
}

/// The options of the forecast, with the training that they choose.
static Expected<CompileOptions> trainingOf(const SimulateOptions &options) {
  if (options.isPlan())
    return wrongUsage("--train: " + options.model +
                      " is a plan, and --train forecasts models; give its model");
  CompileOptions training = options;
  training.training = options.choice;
  return training;
}

static Expected<TrainingForecast> simulateTraining(const SimulateOptions &options) {
  Expected<CompileOptions> training = trainingOf(options);
  if (!training)
    return training.takeError();
  if (Error error = checkFiles(options))
    return error;
  Expected<TrainingForecast> forecast = forecastTraining(*training);
  if (!forecast)
    return forecast;
  if (!options.trace.empty())
    if (Error error = plan::writeFileAtomically(options.trace, traceOf(*forecast)))
      return error;
  return forecast;
}

static Expected<std::vector<MemoryLimitReport<TrainingForecast>>>
simulateTrainingLimits(const SimulateOptions &options) {
  if (Error error = checkOneTrace(options))
    return error;
  Expected<CompileOptions> training = trainingOf(options);
  if (!training)
    return training.takeError();
  TrainingForecaster forecaster(*training);
  return planEach<TrainingForecast>(options.deviceMemories,
                                    [&](int64_t deviceMemory) { return forecaster.forecast(deviceMemory); });
}

static llvm::json::Object trainingToJson(const SimulateOptions &options, const TrainingForecast &report) {
  return toJson(static_cast<const CompileOptions &>(options), report);
}

static void printTraining(llvm::raw_ostream &out, const SimulateOptions &options,
                          const TrainingForecast &report) {
  printText(out, static_cast<const CompileOptions &>(options), report);
}

static Error runSimulate(const SimulateOptions &options, const SupervisedOptions &how) {
  using Plans = std::vector<MemoryLimitReport<SimulateReport>>;
  using Forecasts = std::vector<MemoryLimitReport<TrainingForecast>>;
  if (options.deviceMemories.size() > 1 && !options.isPlan())
    return options.isTraining ? workAndReport<SimulateOptions, Forecasts>(
                                    options, how, {simulateTrainingLimits, limitsToJson, printLimits, false})
                                    .takeError()
                              : workAndReport<SimulateOptions, Plans>(
                                    options, how, {simulateLimits, limitsToJson, printLimits, false})
                                    .takeError();
  if (options.isTraining)
    return workAndReport<SimulateOptions, TrainingForecast>(
               options, how, {simulateTraining, trainingToJson, printTraining, false})
        .takeError();
  return workAndReport<SimulateOptions, SimulateReport>(options, how,
                                                        {simulatePlan, toJson, printText, false})
      .takeError();
}

void addSimulateCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<SimulateOptions>();
  auto how = std::make_shared<SupervisedOptions>();
  CLI::App *command =
      app.add_subcommand("simulate", "Forecast what a plan's schedule takes, on devices here or elsewhere");
  const size_t first = command->get_options().size();
  addPlanOptions(command, *options);
  addDeviceMemoryOption(command, options->deviceMemories, /*takesSeveral=*/true);
  const std::vector<CLI::Option *> all = command->get_options(), planOptions(all.begin() + first, all.end());
  command
      ->add_option("plan", options->model,
                   "The plan's folder, or a model: a TorchScript file, or IR as text (.mlir)")
      ->required()
      ->check(fileName())
      ->type_name("PLAN|FILE");
  command
      ->add_option("--trace", options->trace,
                   "Where to write what each device would do when, for ui.perfetto.dev")
      ->check(fileName())
      ->type_name("FILE");
  addTrainingOptions(command, *options);
  addSupervisedOptions(command, *how);
  command->footer(
      "examples:\n  cleave simulate gpt2.plan\n  cleave simulate gpt2.pt --inputs gpt2.inputs.safetensors "
      "--devices 4 --microbatches 4");
  command->callback([options, how, planOptions, &chosen] {
    for (const CLI::Option *option : planOptions)
      if (option->count() > 0)
        options->given.push_back(option->get_name());
    options->stop = makeSharedStop();
    options->onParseError = endWithError;
    if (options->deviceMemories.size() == 1)
      options->deviceMemory = options->deviceMemories.front();
    chosen.run = [options, how] { return runSimulate(*options, *how); };
    how->isModel = !options->isPlan();
    if (!how->isModel)
      return;
    chosen.confinement = confine(options->model, *how);
    addCompilationAccess(*options, *chosen.confinement);
    if (!options->trace.empty())
      chosen.confinement->outputs.files = {options->trace};
  });
}

} // namespace cleave
