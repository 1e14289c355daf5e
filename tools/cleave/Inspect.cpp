//===- Inspect.cpp - `cleave inspect` -------------------------------------===//
#include "tools/cleave/inspect/Inspect.h"
#include "codegen/plan/text/JsonText.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/inspect/HtmlLosses.h"
#include "tools/cleave/text/Output.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/Support/Path.h"
#include <memory>

namespace cleave {

using llvm::Error;

namespace {
struct InspectOptions {
  std::string plan;
  /// Empty: text.
  std::string format;
  /// What `cleave train --json` printed, or empty.
  std::string training;
  bool json = false, shardingGroups = false;
};
} // namespace

static Error inspect(const InspectOptions &options) {
  if (options.json && !options.format.empty() && options.format != "json")
    return wrongUsage("--format " + options.format + ": found --json as well, expected one of them");
  if (options.shardingGroups && (options.json || !options.format.empty()))
    return wrongUsage("--sharding-groups: found " + (options.json ? "--json" : "--format " + options.format) +
                      " as well, expected one of them; \"sharding_groups\" in --json says the same");
  if (!options.training.empty() && options.format != "html")
    return wrongUsage("--training: found " +
                      (options.format.empty() ? "no --format" : "--format " + options.format) +
                      ", expected --format html");
  std::vector<double> losses;
  if (!options.training.empty())
    if (auto error = readLosses(options.training).moveInto(losses))
      return error;
  llvm::Expected<plan::LoadedPlan> loaded = plan::readPlan(options.plan);
  if (!loaded)
    return loaded.takeError();
  llvm::raw_ostream &out = llvm::outs();
  llvm::StringRef name = llvm::sys::path::filename(llvm::StringRef(options.plan).rtrim('/'));
  if (options.json || options.format == "json")
    out << plan::jsonText(toJson(*loaded), /*indent=*/2) << "\n";
  else if (options.format == "html")
    printHtml(out, *loaded, name, forecastOf(*loaded->plan, name), losses);
  else if (options.format == "dot")
    printDot(out, *loaded);
  else if (options.shardingGroups)
    printShardingGroups(out, *loaded->plan);
  else
    printText(out, *loaded, name);
  return finishOutput();
}

void addInspectCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *command =
      app.add_subcommand("inspect", "Show what is in a plan: stages, weights, inputs and outputs");
  command->add_option("plan", options->plan, "The plan's folder")
      ->required()
      ->check(fileName())
      ->type_name("FOLDER");
  command
      ->add_option("--format", options->format,
                   "How to show it: text, json, html (a page) or dot (for Graphviz) (text)")
      ->check(CLI::IsMember({"text", "json", "html", "dot"}).description(""))
      ->type_name("FORMAT");
  command
      ->add_option("--training", options->training,
                   "What cleave train --json printed: the page draws its losses")
      ->check(fileName())
      ->type_name("FILE");
  command->add_flag("--json", options->json, "The same as --format json");
  command->add_flag("--sharding-groups,--dims", options->shardingGroups,
                    "The dimensions that are split over tensor-parallel ranks, as text");
  command->footer(
      "examples:\n  cleave inspect gpt2.plan\n  cleave inspect gpt2.plan --format html > gpt2.html");
  command->callback([options, &chosen] { chosen = {[options] { return inspect(*options); }, {}}; });
}

} // namespace cleave
