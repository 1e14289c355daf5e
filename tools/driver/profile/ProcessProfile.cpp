//===- ProcessProfile.cpp - A machine of several processes ----------------===//
#include "partitioner/machine/MachineFile.h"
#include "runtime/base/Exceptions.h"
#include "runtime/profile/TimingProcess.h"
#include "tools/driver/profile/JoinedMachine.h"
#include "tools/driver/profile/Profile.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

using llvm::Error;
using llvm::Expected;
using runtime::TimingProcess;

namespace {
/// The measurement of all processes, which make the same calls in the same order.
class ProcessProfiler {
public:
  ProcessProfiler(const ProfileOptions &options, TimingProcess &process)
      : options(options), process(process), blocks(groupByHost(process.hosts())) {}
  Expected<std::optional<Machine>> run();

private:
  uint32_t ranks() const { return process.hosts().size(); }
  /// Options that also report progress to the other processes. `where` is empty or ends in `: `.
  ProfileOptions optionsFor(std::vector<std::string> devices, const std::string &where) const;
  Expected<std::string> measureOwnBlock();
  Error measureLinks(MachineParts &parts);

  const ProfileOptions &options;
  TimingProcess &process;
  const std::vector<HostRanks> blocks;
};
} // namespace

ProfileOptions ProcessProfiler::optionsFor(std::vector<std::string> devices, const std::string &where) const {
  ProfileOptions own = options;
  own.devices = std::move(devices);
  own.progress = [this, where](const std::string &step, std::optional<double> done) {
    process.setStep(where + step);
    if (options.progress)
      options.progress(where + step, done);
  };
  return own;
}

/// The machine of this process's block, in the block's first process; empty in the others.
Expected<std::string> ProcessProfiler::measureOwnBlock() {
  const HostRanks block =
      *llvm::find_if(blocks, [&](const HostRanks &each) { return process.rank() < each.first + each.count; });
  auto names = llvm::ArrayRef(options.devices).slice(block.first, block.count);
  auto timer = process.timer(block.first, block.count, {block.first, block.first + 1});
  auto machine = profile(optionsFor(names.vec(), ""), *timer);
  if (!machine)
    return machine.takeError();
  // Other blocks may be on this host, too.
  const int64_t sharers = llvm::count(process.hosts(), process.hosts()[process.rank()]);
  for (DeviceSpec &device : machine->devices)
    device.memoryBytes = *device.memoryBytes * block.count / sharers;
  return process.rank() == block.first ? machineFileText(*machine) : "";
}

Error ProcessProfiler::measureLinks(MachineParts &parts) {
  for (uint32_t from = 0; from < blocks.size(); ++from)
    for (uint32_t to = from + 1; to < blocks.size(); ++to) {
      const TimingProcess::EndpointRanks ends = {blocks[from].first, blocks[to].first};
      const std::string where = "ranks " + std::to_string(ends[0]) + " and " + std::to_string(ends[1]) + ": ";
      auto timer = process.timer(0, ranks(), ends);
      if (Error error =
              profileLink(optionsFor(options.devices, where), *timer).moveInto(parts.links[{from, to}]))
        return error;
    }
  if (blocks.size() == 1)
    return Error::success();
  auto timer = process.timer(0, ranks(), {0, 1});
  return profileCollectives(optionsFor(options.devices, "all ranks: "), *timer).moveInto(parts.collectives);
}

Expected<std::optional<Machine>> ProcessProfiler::run() {
  auto own = measureOwnBlock();
  if (!own)
    return own.takeError();
  auto texts = process.gather(*own);
  if (!texts)
    return texts.takeError();
  MachineParts parts;
  if (Error error = measureLinks(parts))
    return error;
  if (process.rank() != 0)
    return std::nullopt;
  for (const HostRanks &block : blocks) {
    auto machine = readMachineText((*texts)[block.first], "rank " + std::to_string(block.first));
    if (!machine)
      return machine.takeError();
    if (machine->devices.size() != block.count)
      return llvm::createStringError("a message of rank %u: found a machine of %zu devices, expected %u",
                                     block.first, machine->devices.size(), block.count);
    parts.blocks.push_back(std::move(*machine));
  }
  return joinMachines(parts);
}

Expected<std::optional<Machine>> profile(const ProfileOptions &options, TimingProcess &process) {
  return runtime::catching([&] { return ProcessProfiler(options, process).run(); });
}

} // namespace cleave
