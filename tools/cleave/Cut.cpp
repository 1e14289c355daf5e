//===- Cut.cpp - `cleave cut` ---------------------------------------------===//
#include "codegen/plan/files/AtomicFile.h"
#include "codegen/plan/text/JsonText.h"
#include "codegen/plan/text/Printable.h"
#include "partitioner/placement/PlacementFile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/Output.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/driver/base/StopSource.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <chrono>
#include <memory>
#include <optional>

namespace cleave {

using llvm::Error;
using llvm::formatv;

namespace {
struct CutOptions {
  std::string graph, output;
  /// Replaces the file's number of devices.
  std::optional<uint32_t> devices;
  std::string objective = "max-load";
  bool json = false;
};
} // namespace

/// As many digits as in the benchmark's tables.
static std::string figure(double number) { return formatv("{0}", llvm::format("%.6g", number)); }

static llvm::json::Array toJson(const PlacementProblem &problem, const std::vector<DeviceLoad> &devices) {
  llvm::json::Array array;
  for (const DeviceLoad &device : devices) {
    std::vector<int64_t> ids;
    for (uint32_t node : device.nodes)
      ids.push_back(problem.nodes[node].id);
    llvm::sort(ids);
    array.push_back(llvm::json::Object{{"load", device.load}, {"nodes", llvm::json::Array(ids)}});
  }
  return array;
}

static std::vector<std::string> notesOn(const Placement &placement) {
  if (placement.isExact || placement.end != SearchEnd::Interrupted)
    return {};
  return {formatv("interrupted: this is the best so far; none has a max load below {0}, {1:f2} % less",
                  figure(placement.lowerBound), placement.gap() * 100)};
}

/// The benchmark's solution and its quality. No times, so that the same file gives the same solution.
static llvm::json::Object toJson(const PlacementProblem &problem, const Placement &placement) {
  return llvm::json::Object{{"maxLoad", placement.maxLoad},
                            {"fpgas", toJson(problem, placement.accelerators)},
                            {"cpus", toJson(problem, placement.cpus)},
                            {"lowerBound", placement.lowerBound},
                            {"gap", placement.gap()},
                            {"exact", placement.isExact},
                            {"downsets", static_cast<int64_t>(placement.downsets)},
                            {"notes", llvm::json::Array(notesOn(placement))}};
}

static void printText(llvm::raw_ostream &out, const CutOptions &options, const PlacementProblem &problem,
                      const Placement &placement, double seconds) {
  TextTable table({Align::Left, Align::Right, Align::Right, Align::Right});
  table.add({"device", "load", "nodes", "size"});
  auto add = [&](llvm::StringRef kind, const std::vector<DeviceLoad> &devices) {
    for (size_t index = 0; index < devices.size(); ++index)
      table.add({formatv("{0} {1}", kind, index), figure(devices[index].load),
                 formatv("{0:N}", devices[index].nodes.size()), figure(devices[index].size)});
  };
  add("accelerator", placement.accelerators);
  add("cpu", placement.cpus);
  table.print(out);
  out << formatv("{0}: {1} of {2} accelerators, {3} of {4} CPUs\n",
                 plan::printable(llvm::sys::path::filename(options.graph)), placement.accelerators.size(),
                 problem.accelerators, placement.cpus.size(), problem.cpus);
  out << formatv("max load {0}, lower bound {1}, gap {2:f2} %; {3}, {4:f2} s\n", figure(placement.maxLoad),
                 figure(placement.lowerBound), placement.gap() * 100, placement.describe({}), seconds);
  for (const std::string &note : notesOn(placement))
    out << "note: " << plan::printable(note) << "\n";
}

static Error writeFile(llvm::StringRef path, llvm::StringRef text) {
  llvm::Expected<plan::AtomicFile> file = plan::AtomicFile::create(path);
  if (!file)
    return file.takeError();
  if (Error error = file->write(llvm::arrayRefFromStringRef(text)))
    return error;
  return file->commit();
}

/// Checks before the work that its result can be written, and would not overwrite the graph.
static Error checkOutput(const CutOptions &options) {
  if (options.output.empty())
    return Error::success();
  if (llvm::sys::fs::equivalent(options.output, options.graph))
    return llvm::createStringError("--output " + options.output + ": is the graph; give another name");
  // Creates a temporary file beside it, and removes that.
  return plan::AtomicFile::create(options.output).takeError();
}

/// \param stop  ends the search with the best placement so far.
static Error cut(const CutOptions &options, StopSource &stop) {
  if (Error error = checkOutput(options))
    return error;
  llvm::Expected<PlacementProblem> problem = readPlacementFile(options.graph);
  if (!problem)
    return problem.takeError();
  if (options.devices)
    problem->accelerators = *options.devices;
  const auto begin = std::chrono::steady_clock::now();
  const CancellationScope ending([&] {
    // From now on a stop request is accepted: there is a placement to return.
    stop.open();
    return stop.isStopRequested();
  });
  llvm::Expected<Placement> placement = place(*problem);
  if (!placement)
    return llvm::createStringError(options.graph + ": " + toString(placement.takeError()));
  stop.close();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string text = plan::jsonText(toJson(*problem, *placement), /*indent=*/2) + "\n";
  if (!options.output.empty())
    if (Error error = writeFile(options.output, text))
      return error;
  if (options.json)
    llvm::outs() << text;
  else
    printText(llvm::outs(), options, *problem, *placement, seconds);
  return finishOutput();
}

void addCutCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<CutOptions>();
  CLI::App *command = app.add_subcommand("cut", "Place a weighted graph on devices, exactly");
  command->add_option("graph", options->graph, "The graph, as JSON (docs/placement.md has the format)")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  command->add_option("--devices", options->devices, "Accelerators, instead of the file's maxFPGAs")
      ->transform(wholeNumber(1, 65536))
      ->type_name("N");
  command
      ->add_option("--objective", options->objective,
                   "What is to be least: max-load, of the busiest device (max-load)")
      ->check(CLI::IsMember({"max-load"}).description(""))
      ->type_name("OBJECTIVE");
  command->add_flag("--json", options->json, "Print the solution as one JSON object");
  command->add_option("-o,--output", options->output, "Write the solution there, as JSON")
      ->check(fileName())
      ->type_name("FILE");
  command->footer("example:\n  cleave cut gnmt.json --devices 6 -o gnmt.solution.json");
  auto stop = std::make_shared<StopSource>();
  command->callback([options, stop, &chosen] {
    chosen = {[options, stop] { return cut(*options, *stop); }, {}, stop.get()};
  });
}

} // namespace cleave
