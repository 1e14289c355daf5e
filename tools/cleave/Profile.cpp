//===- Profile.cpp - `cleave profile` -------------------------------------===//
#include "tools/driver/Profile.h"
#include "codegen/plan/AtomicFile.h"
#include "partitioner/MachineFile.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/Output.h"
#include "tools/cleave/ProgressBar.h"
#include "tools/cleave/TextTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <memory>

namespace cleave {

using llvm::Error;
using llvm::formatv;

namespace {
struct ProfileCommand {
  ProfileOptions profile;
  std::string output;
  bool json = false;
};
} // namespace

static std::string number(double value) { return formatv("{0:f1}", value); }

/// The least, the middle and the greatest of an axis, as many as there are.
static std::vector<double> picked(const std::vector<double> &sizes) {
  std::vector<double> picked = {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return picked;
}

/// Rates by rows, of which each has the middle columns and depth.
static void addProducts(TextTable &text, const std::string &what, const RateTable &table) {
  auto middle = [&](size_t axis) { return table.axisSizes()[axis][table.axisSizes()[axis].size() / 2]; };
  for (double rows : picked(table.axisSizes()[1]))
    text.add({what,
              formatv("{0} x {1} x {2} x {3}", int64_t(middle(0)), int64_t(rows), int64_t(middle(2)),
                      int64_t(middle(3))),
              number(table.at({middle(0), rows, middle(2), middle(3)}) / 1e9) + " GFLOP/s"});
}

static void addBytes(TextTable &text, llvm::StringRef what, const RateTable &table) {
  for (double bytes : picked(table.axisSizes()[0]))
    text.add({what.str(), number(bytes / 1e3) + " KB", number(table.at({bytes}) / 1e9) + " GB/s"});
}

static void printText(llvm::raw_ostream &out, const Machine &machine) {
  const DeviceSpec &device = machine.devices.front();
  TextTable text({Align::Left, Align::Right, Align::Right});
  text.add({"measured", "of", "rate"});
  for (auto &[key, table] : device.rates->products)
    addProducts(text, (kProductKinds[size_t(key.first)] + " " + key.second).str(), table);
  addBytes(text, "memory", device.rates->memory);
  for (auto [index, kind] : llvm::enumerate(kCollectiveKinds))
    if (auto &measured = machine.collectives.of(CollectiveKind(index)))
      addBytes(text, kind, measured->bytesPerSecond);
  text.print(out);
  out << formatv("{0} device{1}: {2} us a call, {3} us a hand-over\n", machine.devices.size(),
                 machine.devices.size() == 1 ? "" : "s", number(device.operatorSeconds * 1e6),
                 number(machine.link.latencySeconds * 1e6));
}

static Error profileAndWrite(ProfileCommand command) {
  // First, since a place that cannot be written is best known before the work.
  auto file = plan::AtomicFile::create(command.output);
  if (!file)
    return file.takeError();
  std::optional<ProgressBar> bar;
  command.profile.progress = showOn(bar);
  auto machine = profile(command.profile);
  bar.reset();
  if (!machine)
    return machine.takeError();
  const std::string text = machineFileText(*machine);
  if (Error error = file->write(llvm::arrayRefFromStringRef(text)))
    return error;
  if (Error error = file->commit())
    return error;
  if (command.json)
    llvm::outs() << text;
  else
    printText(llvm::outs(), *machine);
  return finishOutput();
}

void addProfileCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ProfileCommand>();
  options->profile.devices = {"cpu:0"};
  CLI::App *command = app.add_subcommand("profile", "Measure this machine, for compile --machine");
  addDeviceNames(command, options->profile.devices,
                 "The devices of a plan, which share this machine's threads: cpu:0,cpu:1 (cpu:0)");
  command->add_option("-o,--output", options->output, "Where to write the machine, a JSON file")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  command
      ->add_option("--passes", options->profile.passes,
                   "How often to measure everything, of which the median counts; more on a shared host (3)")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  command->add_flag("--quick", options->profile.quick, "Measure little, for a moment: to see that it works");
  command->add_flag("--json", options->json, "Print the file, too");
  command->footer("example:\n  cleave profile --devices cpu:0,cpu:1 -o machine.json");
  command->callback([options, &chosen] { chosen = {[options] { return profileAndWrite(*options); }, {}}; });
}

} // namespace cleave
