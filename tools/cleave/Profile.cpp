//===- Profile.cpp - `cleave profile` -------------------------------------===//
#include "tools/driver/profile/Profile.h"
#include "codegen/plan/files/AtomicFile.h"
#include "partitioner/machine/MachineFile.h"
#include "runtime/base/Launch.h"
#include "runtime/profile/TimingProcess.h"
#include "tools/cleave/Commands.h"
#include "tools/cleave/run/RankProcess.h"
#include "tools/cleave/text/Numbers.h"
#include "tools/cleave/text/Output.h"
#include "tools/cleave/text/ProgressBar.h"
#include "tools/cleave/text/TextTable.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <chrono>
#include <memory>

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using runtime::TimingProcess;

namespace {
struct ProfileCommand {
  ProfileOptions profile;
  std::string output;
  uint64_t timeoutSeconds = 30;
  bool json = false;
};
} // namespace

static std::string number(double value) { return formatv("{0:f1}", value); }

/// The least, the middle and the greatest value of an axis, without duplicates.
static std::vector<double> picked(const std::vector<double> &sizes) {
  std::vector<double> picked = {sizes.front(), sizes[sizes.size() / 2], sizes.back()};
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return picked;
}

/// Adds rates by rows, each at the middle columns and depth.
static void addGemmRates(TextTable &text, const std::string &what, const RateTable &table) {
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
  for (auto &[key, table] : device.rates->gemms)
    addGemmRates(text, (kGemmKinds[size_t(key.first)] + " " + key.second).str(), table);
  addBytes(text, "memory", device.rates->otherOperators);
  for (auto [index, kind] : llvm::enumerate(kCollectiveKinds))
    if (auto &measured = machine.collectives.measurementOf(CollectiveKind(index)))
      addBytes(text, kind, measured->bytesPerSecond);
  text.print(out);
  out << formatv("{0} device{1}: {2} us per operator call, {3} us per transfer between devices\n",
                 machine.devices.size(), machine.devices.size() == 1 ? "" : "s",
                 number(device.dispatchSeconds * 1e6), number(machine.link.latencySeconds * 1e6));
  if (machine.nodes)
    out << formatv("{0} nodes of {1}: {2} us per transfer between nodes, {3} MB/s\n",
                   machine.devices.size() / machine.nodes->devices, machine.nodes->devices,
                   number(machine.nodes->link.latencySeconds * 1e6),
                   number(machine.nodes->link.bytesPerSecond / 1e6));
}

/// Runs `measure`, then writes and prints the machine.
static Error profileAndWrite(ProfileCommand command,
                             llvm::function_ref<Expected<Machine>(const ProfileOptions &)> measure) {
  // First, since an unwritable path is best reported before the work.
  auto file = plan::AtomicFile::create(command.output);
  if (!file)
    return file.takeError();
  std::optional<ProgressBar> bar;
  command.profile.progress = showOn(bar);
  auto machine = measure(command.profile);
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

/// Profiles as one of several processes.
static Error profileAsRank(const ProfileCommand &command, TimingProcess &process) {
  if (process.rank() != 0)
    return profile(command.profile, process).takeError();
  return profileAndWrite(command, [&](const ProfileOptions &options) -> Expected<Machine> {
    auto machine = profile(options, process);
    if (!machine)
      return machine.takeError();
    return std::move(**machine);
  });
}

static Error checkDevices(const ProfileOptions &options, uint32_t processes) {
  if (options.devices.size() != processes)
    return wrongUsage("--devices " + llvm::join(options.devices, ",") + ": found " +
                      llvm::Twine(options.devices.size()) + " for " + llvm::Twine(processes) +
                      " processes, which have one each; give as many, or leave it out");
  return checkDevicesOnce(options.devices);
}

static Error profileWithOthers(ProfileCommand command, const runtime::Launch &launch) {
  std::vector<std::string> &devices = command.profile.devices;
  const bool areGiven = !devices.empty();
  for (uint32_t rank = 0; rank < launch.size && !areGiven; ++rank)
    devices.push_back("cpu:" + std::to_string(rank));
  if (Error error = checkDevices(command.profile, launch.size))
    return error;
  const std::string task =
      "profile-" + std::to_string(command.profile.rounds) + (command.profile.quick ? "q" : "");
  auto open = [&](std::function<void(const std::string &)> failed) {
    return TimingProcess::join({launch, task, std::chrono::seconds(command.timeoutSeconds),
                                devices[launch.rank], measurementSecondsOf(command.profile),
                                std::move(failed)});
  };
  runAsRank<TimingProcess>(launch.rank, open,
                           [&](TimingProcess &process) { return profileAsRank(command, process); });
  return Error::success();
}

static Error run(ProfileCommand command) {
  auto launch = runtime::launchFromEnvironment();
  if (!launch)
    return launch.takeError();
  if (*launch)
    return profileWithOthers(std::move(command), **launch);
  if (command.profile.devices.empty())
    command.profile.devices = {"cpu:0"};
  return profileAndWrite(std::move(command), [](const ProfileOptions &options) { return profile(options); });
}

void addProfileCommand(CLI::App &app, Subcommand &chosen) {
  auto options = std::make_shared<ProfileCommand>();
  CLI::App *command = app.add_subcommand("profile", "Measure this machine, for compile --machine");
  addDeviceNames(command, options->profile.devices,
                 "Devices of a plan in one process, or one for each process: cpu:0,cpu:1 (cpu:0)",
                 /*acceptsBareCuda=*/false);
  command->add_option("-o,--output", options->output, "Where to write the machine, a JSON file")
      ->required()
      ->check(fileName())
      ->type_name("FILE");
  command
      ->add_option("--rounds,--passes", options->profile.rounds,
                   "How often to measure everything; the median counts; more on a shared host (3)")
      ->transform(wholeNumber(1, 1000))
      ->type_name("N");
  command->add_option("--timeout", options->timeoutSeconds, "Seconds that processes wait for each other")
      ->transform(wholeNumber(1, 1000000000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--quick", options->profile.quick, "Measure little, for a moment: to see that it works");
  command->add_flag("--json", options->json, "Print the file, too");
  command->footer("example:\n  cleave profile --devices cpu:0,cpu:1 -o machine.json\n"
                  "one process per device, on one host or several, also by srun and mpirun:\n"
                  "  torchrun --nproc-per-node 2 --no-python cleave profile -o machine.json");
  command->callback([options, &chosen] { chosen = {[options] { return run(*options); }, {}}; });
}

} // namespace cleave
