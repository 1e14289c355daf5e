//===- Run.cpp - `cleave run` ---------------------------------------------===//
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/JsonText.h"
#include "codegen/plan/PlanFacts.h"
#include "runtime/DTypes.h"
#include "runtime/Session.h"
#include "runtime/SignatureInputs.h"
#include "runtime/TensorFile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/Output.h"
#include "tools/cleave/RunFiles.h"
#include "tools/cleave/Stream.h"
#include "tools/cleave/TextTable.h"
#include "tools/cleave/TraceFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <deque>
#include <memory>
#include <optional>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::DeviceStatistics;
using runtime::NamedTensor;
using runtime::Session;

namespace {
struct RunOptions {
  RunFiles files;
  uint64_t repeat = 1;
  uint64_t timeoutSeconds = 30;
  runtime::SessionOptions session;
  bool json = false, stream = false;
};

/// What the steps gave and took.
struct Measurement {
  Requests outputs;
  /// While steps follow one another through the stages, and of a step that has them to itself.
  double secondsPerStep, secondsAlone;
  uint64_t steps;
  /// Peaks since the session was opened; busy during the steps.
  std::vector<DeviceStatistics> devices;
  /// Share of the ranks' time in which they wait while one request has them to itself, and what it is where all stages
  /// take equally long. Nothing for one rank.
  std::optional<double> bubble, bubbleByFormula;
  std::vector<runtime::TraceEvent> trace;
};
} // namespace

//===- Running ------------------------------------------------------------===//

/// Runs `steps` times the requests, which follow one another through the stages, each time from the state that the model
/// was saved with. Gives the outputs of the last time.
static Expected<Requests> runSteps(Session &session, const Requests &requests, uint64_t steps) {
  // Enough to keep every rank at work; more would only hold more outputs.
  const size_t mostUnderWay = session.plan().stages.size() + 1;
  std::deque<std::unique_ptr<Session::Pending>> underWay;
  Requests outputs(requests.size());
  const uint64_t count = steps * requests.size();
  for (uint64_t started = 0, done = 0; done < count;) {
    if (started < count && underWay.size() < mostUnderWay) {
      const size_t index = started % requests.size();
      if (index == 0)
        if (Error error = session.resetState())
          return error;
      auto pending = session.start(requests[index]);
      if (!pending)
        return pending.takeError();
      underWay.push_back(std::move(*pending));
      ++started;
      continue;
    }
    if (Error error = underWay.front()->wait().moveInto(outputs[done++ % requests.size()]))
      return error;
    underWay.pop_front();
  }
  return outputs;
}

static double sumOfBusySeconds(const Session &session) {
  double sum = 0;
  for (const DeviceStatistics &device : session.statistics())
    sum += device.busySeconds;
  return sum;
}

/// A step that has all ranks to itself.
struct Alone {
  double seconds;
  /// Share of the ranks' time in which they wait.
  double bubble;
};

/// The mean of a few, each request of which is started when the one before has ended.
static Expected<Alone> measureAlone(Session &session, const Requests &requests) {
  constexpr int runs = 3;
  const double busyBefore = sumOfBusySeconds(session);
  auto begin = std::chrono::steady_clock::now();
  for (int run = 0; run < runs; ++run) {
    if (Error error = session.resetState())
      return error;
    for (const std::vector<at::Tensor> &inputs : requests)
      if (auto outputs = session.run(inputs); !outputs)
        return outputs.takeError();
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double busy = sumOfBusySeconds(session) - busyBefore;
  return Alone{seconds.count() / runs, 1 - busy / (seconds.count() * session.statistics().size())};
}

/// The micro-batches that a request goes through the stages in: one of fewer samples than the plan has has
/// fewer.
static int64_t microbatchesOf(const plan::Plan &plan, llvm::ArrayRef<at::Tensor> inputs) {
  int64_t microbatches = scheduleOf(plan, 0).microbatches;
  const plan::Signature &signature = *plan.signatures[0];
  if (microbatches > 1)
    for (auto [tensor, input] : llvm::zip(inputs, signature.inputs))
      for (auto [dim, size] : llvm::enumerate(input->type->dims))
        if (plan::asSymbol(*size) == uint32_t(signature.batch))
          microbatches = std::min(microbatches, tensor.size(dim));
  return microbatches;
}

static Expected<Measurement> measure(Session &session, const Requests &requests, uint64_t steps) {
  if (auto warmUp = session.run(requests.front()); !warmUp)
    return warmUp.takeError();
  Measurement measurement;
  measurement.steps = steps;
  if (session.statistics().size() > 1) {
    Expected<Alone> alone = measureAlone(session, requests);
    if (!alone)
      return alone.takeError();
    measurement.secondsAlone = alone->seconds;
    measurement.bubble = alone->bubble;
    measurement.bubbleByFormula =
        bubbleByFormula(session.plan(), microbatchesOf(session.plan(), requests.front()));
  }
  session.takeTrace();
  std::vector<DeviceStatistics> before = session.statistics();
  auto begin = std::chrono::steady_clock::now();
  auto outputs = runSteps(session, requests, steps);
  if (!outputs)
    return outputs.takeError();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  measurement.secondsPerStep = seconds.count() / double(steps);
  if (!measurement.bubble) // the steps of one rank cannot overlap
    measurement.secondsAlone = measurement.secondsPerStep;
  measurement.devices = session.statistics();
  measurement.trace = session.takeTrace();
  for (auto [device, earlier] : llvm::zip(measurement.devices, before))
    device.busySeconds -= earlier.busySeconds;
  measurement.outputs = std::move(*outputs);
  return measurement;
}

//===- Reporting ----------------------------------------------------------===//

static llvm::StringRef dtypeNameOf(const at::Tensor &tensor) {
  return plan::nameOf(runtime::dtypeOf(tensor.scalar_type()));
}

/// Of all steps.
static double idleSeconds(const Measurement &measurement, const DeviceStatistics &device) {
  return measurement.secondsPerStep * measurement.steps - device.busySeconds;
}

static llvm::json::Object toJson(const Measurement &measurement, llvm::ArrayRef<NamedTensor> named) {
  llvm::json::Array devices, outputs;
  for (const DeviceStatistics &device : measurement.devices)
    devices.push_back(llvm::json::Object{{"name", device.name},
                                         {"peak_bytes", device.peakBytes},
                                         {"weight_bytes", device.weightBytes},
                                         {"busy_seconds", device.busySeconds},
                                         {"idle_seconds", idleSeconds(measurement, device)}});
  for (const auto &[name, tensor] : named)
    outputs.push_back(llvm::json::Object{
        {"name", name}, {"dtype", dtypeNameOf(tensor)}, {"shape", llvm::json::Array(tensor.sizes())}});
  llvm::json::Object result{{"seconds", measurement.secondsPerStep},
                            {"seconds_alone", measurement.secondsAlone},
                            {"devices", std::move(devices)},
                            {"outputs", std::move(outputs)}};
  if (measurement.bubble)
    result["bubble"] =
        llvm::json::Object{{"measured", *measurement.bubble}, {"formula", *measurement.bubbleByFormula}};
  return result;
}

static std::string megabytes(int64_t bytes) { return llvm::formatv("{0:f2}", double(bytes) / 1e6); }

static void printText(llvm::raw_ostream &out, const Measurement &measurement, llvm::ArrayRef<NamedTensor> named) {
  out << llvm::formatv("{0:f2} ms a step\n", measurement.secondsPerStep * 1e3);
  if (measurement.bubble)
    out << llvm::formatv("{0:f2} ms a step alone; bubble {1:f1} %, {2:f1} % by formula\n",
                         measurement.secondsAlone * 1e3, *measurement.bubble * 100, *measurement.bubbleByFormula * 100);
  out << "\n";
  TextTable devices({Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
  devices.add({"device", "peak MB", "weights MB", "busy ms", "idle ms"});
  for (const DeviceStatistics &device : measurement.devices)
    devices.add({device.name, megabytes(device.peakBytes), megabytes(device.weightBytes),
                 llvm::formatv("{0:f2}", device.busySeconds * 1e3),
                 llvm::formatv("{0:f2}", idleSeconds(measurement, device) * 1e3)});
  devices.print(out);
  out << "\n";
  TextTable outputs({Align::Left, Align::Left});
  outputs.add({"output", "type"});
  for (const auto &[name, tensor] : named) {
    auto sizes = llvm::map_range(tensor.sizes(), [](int64_t size) { return std::to_string(size); });
    outputs.add({name, (dtypeNameOf(tensor) + "[" + llvm::join(sizes, ", ") + "]").str()});
  }
  outputs.print(out);
}

//===- The command --------------------------------------------------------===//

static Expected<Requests> readInputs(const RunOptions &options, const plan::Signature &signature) {
  if (options.files.inputs.empty())
    return llvm::createStringError("no inputs were given, expected " + runtime::describeInputs(signature) +
                                   "; pass --inputs with a safetensors file that has them by name");
  auto tensors = runtime::readTensors(options.files.inputs);
  if (!tensors)
    return tensors.takeError();
  auto inputs = runtime::matchInputs(signature, *tensors, options.files.inputs);
  if (!inputs)
    return inputs.takeError();
  if (options.stream)
    return splitStream(signature, *inputs);
  return Requests{std::move(*inputs)};
}

/// The outputs as they are written: of one request, or of a stream.
static Expected<std::vector<NamedTensor>> nameOutputs(const RunOptions &options, const plan::Signature &signature,
                                                      Requests &outputs) {
  if (options.stream)
    if (Error error = joinStream(signature, outputs).moveInto(outputs.front()))
      return error;
  std::vector<NamedTensor> named;
  for (auto [tensor, output] : llvm::zip(outputs.front(), signature.outputs))
    named.push_back({output->name, tensor});
  return named;
}

static std::string traceOf(const plan::Plan &plan, const Measurement &measurement) {
  std::vector<TraceRow> rows;
  for (const runtime::DeviceStatistics &device : measurement.devices) {
    rows.push_back({device.rank, device.name, {}});
    llvm::copy_if(measurement.trace, std::back_inserter(rows.back().events),
                  [&](const runtime::TraceEvent &event) { return event.rank == device.rank; });
  }
  return formatTrace(rows, modulePathsOf(plan));
}

static Error run(RunOptions options) {
  if (Error error = checkRunFiles(options.files))
    return error;
  options.session.trace = !options.files.trace.empty();
  options.session.timeout = std::chrono::seconds(options.timeoutSeconds);
  auto session = Session::open(options.files.plan, options.session);
  if (!session)
    return session.takeError();
  auto inputs = readInputs(options, *(*session)->plan().signatures[0]);
  if (!inputs)
    return inputs.takeError();
  auto measurement = measure(**session, *inputs, options.repeat);
  if (!measurement)
    return measurement.takeError();
  auto outputs = nameOutputs(options, *(*session)->plan().signatures[0], measurement->outputs);
  if (!outputs)
    return outputs.takeError();
  auto trace = [&] { return traceOf((*session)->plan(), *measurement); };
  if (Error error = writeRunFiles(options.files, *outputs, trace))
    return error;
  if (options.json)
    llvm::outs() << plan::jsonText(toJson(*measurement, *outputs), /*indent=*/2) << "\n";
  else
    printText(llvm::outs(), *measurement, *outputs);
  return finishOutput();
}

void addRunCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App *command = app.add_subcommand("run", "Run a plan on inputs from a file");
  command->add_option("plan", options->files.plan, "The plan's folder")
      ->required()
      ->check(fileName())
      ->type_name("FOLDER");
  command->add_option("--inputs", options->files.inputs, "The inputs by name, a safetensors file")
      ->type_name("FILE");
  command->add_option("--outputs", options->files.outputs, "Where to write the outputs, a safetensors file")
      ->type_name("FILE");
  command
      ->add_option("--trace", options->files.trace,
                   "Where to write what each device did when, for ui.perfetto.dev")
      ->type_name("FILE");
  command->add_option("--repeat", options->repeat, "Steps to measure (requests, or streams), after one request to warm up")
      ->check(CLI::Range(uint64_t(1), uint64_t(1000000000)).description(""))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--timeout", options->timeoutSeconds, "Seconds that a step may take")
      ->check(CLI::Range(uint64_t(1), uint64_t(1000000000)).description(""))
      ->capture_default_str()
      ->type_name("N");
  addDeviceNames(command, options->session.devices, "One device a rank, cpu:N or cuda:N: cpu:0,cuda:0");
  repeatable(command->add_option("--library", options->session.libraries,
                                 "A library of operators, as torch loads them"))
      ->type_name("FILE");
  command->add_flag("--stream", options->stream,
                    "Inputs and outputs have one more dimension in front: requests one after the other");
  command->add_flag("--check-types", options->session.checkTypes,
                    "Compare every value with the type that the plan predicts");
  command->add_flag("--json", options->json, "Report as one JSON object");
  command->footer(
      "example:\n  cleave run gpt2.plan --inputs gpt2.inputs.safetensors --outputs outputs.safetensors");
  command->callback([options, &chosen] { chosen = {[options] { return run(*options); }, {}}; });
}

} // namespace cleave
