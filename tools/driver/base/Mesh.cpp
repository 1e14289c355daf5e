//===- Mesh.cpp - Devices and mesh from the options -----------------------===//
#include "tools/driver/base/Mesh.h"
#include "partitioner/machine/Machine.h"
#include "partitioner/sharding/Sharding.h"
#include "tools/driver/base/ShardOptions.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/MathExtras.h"

namespace cleave {

using llvm::StringRef;

/// As many as --devices accepts.
static constexpr uint64_t kMaxMeshDevices = 65536;
/// Most stages per rank.
static constexpr uint32_t kMaxInterleaved = 64;

namespace {
/// `pp=2,tp=2`, `pp=auto,tp=2`, `auto`; nothing for values to search for.
struct MeshOption {
  std::optional<uint32_t> pp = 1, dp = 1, tp = 1;
  bool isOpen() const { return !pp || !tp || !dp; }
};
} // namespace

static llvm::Expected<MeshOption> parseMesh(StringRef text) {
  MeshOption mesh;
  if (text == "auto") {
    mesh.pp = mesh.dp = mesh.tp = std::nullopt;
    return mesh;
  }
  llvm::StringSet<> given;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [axis, size] = part.trim().split('=');
    std::optional<uint32_t> *target = axis == "pp"   ? &mesh.pp
                                      : axis == "tp" ? &mesh.tp
                                      : axis == "dp" ? &mesh.dp
                                                     : nullptr;
    uint32_t count = 0;
    const bool isAuto = size == "auto";
    if (!target || (!isAuto && (size.getAsInteger(10, count) || count == 0)))
      return wrongUsage("--mesh " + text + ": found \"" + part +
                        "\", expected auto alone, or pp=N, dp=N or tp=N, where N is auto or at least 1");
    if (!given.insert(axis).second)
      return wrongUsage("--mesh " + text + ": " + axis + " is given twice");
    *target = isAuto ? std::nullopt : std::optional(count);
  }
  return mesh;
}

/// True if MLIR's parser of pass options reads the word as one: it matches brackets.
static bool hasBalancedBrackets(StringRef word) {
  int64_t open = 0;
  for (char c : word) {
    open += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (open < 0)
      return false;
  }
  return open == 0;
}

/// The pass pipeline is text, in which names of machines and modules must stand unquoted.
static llvm::Error checkPipelineWords(const CompileOptions &options) {
  for (const std::string &pattern : options.capturePoints) {
    if (auto glob = llvm::GlobPattern::create(pattern); !glob)
      return wrongUsage("--capture-points " + pattern + ": " + toString(glob.takeError()));
    if (!hasBalancedBrackets(pattern))
      return wrongUsage("--capture-points " + pattern +
                        ": found a bracket without its other; give module paths as "
                        "the model's source has them, with *, ? and [0-9]");
  }
  auto check = [](StringRef option, StringRef word, StringRef unfit) -> llvm::Error {
    auto isControl = [](unsigned char c) { return c < ' ' || c == 127; };
    if (word.empty() || llvm::any_of(word, isControl))
      return wrongUsage(option + ": found " + (word.empty() ? "nothing" : "a character that does not print") +
                        ", expected a name");
    size_t found = word.find_first_of(unfit);
    if (found == StringRef::npos)
      return llvm::Error::success();
    return wrongUsage(option + " " + word + ": found \"" + word.substr(found, 1) +
                      "\", which the pass pipeline cannot carry in a name");
  };
  const StringRef unfit = " ,(){}<>'\"\\[]";
  for (const std::string &pattern : options.capturePoints)
    if (auto error = check("--capture-points", pattern, unfit.drop_back(2)))
      return error;
  for (const std::string &path : options.stageBefore)
    if (auto error = check("--stage-before", path, unfit))
      return error;
  return options.machine.empty() ? llvm::Error::success() : check("--machine", options.machine, unfit);
}

std::vector<std::optional<int64_t>> PipelineShape::memoryOfRanks() const {
  const size_t count = rankCount();
  std::vector<std::optional<int64_t>> memory(count, memoryGiven);
  if (!memoryGiven)
    std::copy_n(memoryOfDevices.begin(), std::min(count, memoryOfDevices.size()), memory.begin());
  return memory;
}

/// True if the devices are identical, so that any of them may be used.
static bool areAlike(const Machine &machine) {
  auto isLikeFirst = [&](const DeviceSpec &device) {
    const DeviceSpec &first = machine.devices.front();
    return device.computesLike(first) && device.memoryBytes == first.memoryBytes &&
           device.threads == first.threads;
  };
  return machine.linkOverrides.empty() && llvm::all_of(machine.devices, isLikeFirst);
}

/// The error that there are more or fewer devices than the mesh uses.
/// \param most  devices of the machine; 0 without one.
static llvm::Error wrongDevices(const CompileOptions &options, uint64_t taken, uint32_t found,
                                uint32_t most) {
  const std::string what = "--mesh " + options.mesh + ": takes " + std::to_string(taken) +
                           " devices, but there are " + std::to_string(found);
  if (most > 0 && taken > most)
    return wrongUsage(what + "; take " + llvm::Twine(most) + " at most" +
                      (options.devices ? " and leave --devices out" : "") + ", or a machine that has more");
  if (options.devices)
    return wrongUsage(what + "; make --devices equal");
  return wrongUsage(what + ", which are not alike; give --devices " + llvm::Twine(taken) +
                    " for the first of them, in the order of " + options.machine);
}

/// Sets the number of ranks.
static llvm::Expected<PipelineShape> readRanks(const CompileOptions &options) {
  PipelineShape shape;
  // Devices of the machine beyond these may stay unused.
  bool takesFirst = false;
  std::optional<uint32_t> devices;
  if (options.devices)
    devices = options.devices;
  if (!options.machine.empty()) {
    auto machine = Machine::load(options.machine);
    if (!machine)
      return machine.takeError();
    if (devices && *devices > machine->devices.size())
      return llvm::createStringError("--devices " + llvm::Twine(*devices) + ": machine " + options.machine +
                                     " has " + llvm::Twine(machine->devices.size()) +
                                     "; give that many at most, or a machine that has more");
    for (const DeviceSpec &device : machine->devices)
      shape.memoryOfDevices.push_back(device.memoryBytes);
    takesFirst = !devices && areAlike(*machine);
    shape.devicesOfMachine = machine->devices.size();
    devices = devices.value_or(machine->devices.size());
  }
  if (options.deviceMemory) {
    if (*options.deviceMemory < 1)
      return wrongUsage("--device-memory " + llvm::Twine(*options.deviceMemory) +
                        ": expected at least 1 byte, as 80GB");
    shape.memoryGiven = options.deviceMemory;
  }
  shape.devices = devices.value_or(1);
  if (options.mesh.empty()) {
    shape.pipelineParallelSize = shape.devices;
    return shape;
  }
  auto mesh = parseMesh(options.mesh);
  if (!mesh)
    return mesh.takeError();
  // The number of concurrent requests is not known here. With many of them, pipeline stages or
  // tensor-parallel ranks are mostly as fast as data-parallel ranks, and hold the weights once.
  if (!options.training && options.mesh == "auto")
    mesh->dp = 1;
  if (!options.training && !mesh->dp)
    return wrongUsage(
        "--mesh " + options.mesh +
        ": found dp=auto, expected a number: dp is searched for in training alone; use dp=N, with pp=auto "
        "or tp=auto");
  if (mesh->tp > kMaxTensorParallelSize)
    return wrongUsage("--mesh " + options.mesh + ": found tp=" + llvm::Twine(*mesh->tp) +
                      ", expected at most " + llvm::Twine(kMaxTensorParallelSize));
  if (mesh->isOpen()) {
    shape.search = {shape.devices, mesh->pp, mesh->tp, mesh->dp, {}};
    // So that the batch is named.
    shape.dataParallelSize = mesh->dp.value_or(1);
    return shape;
  }
  shape.pipelineParallelSize = *mesh->pp;
  shape.tensorParallelSize = *mesh->tp;
  shape.dataParallelSize = *mesh->dp;
  uint64_t taken = llvm::SaturatingMultiply(uint64_t(shape.pipelineParallelSize) * shape.tensorParallelSize,
                                            uint64_t(shape.dataParallelSize));
  if (taken > kMaxMeshDevices)
    return wrongUsage("--mesh " + options.mesh + ": takes " + llvm::Twine(taken) +
                      " devices, expected at most " + llvm::Twine(kMaxMeshDevices));
  if (devices && *devices != taken && !(takesFirst && taken < *devices))
    return wrongDevices(options, taken, *devices, shape.devicesOfMachine);
  shape.devices = taken;
  return shape;
}

std::vector<std::string> noteDevicesLeft(const CompileOptions &options, const PipelineShape &shape,
                                         uint32_t used) {
  if (!shape.leavesDevices())
    return {};
  const char *are = used == 1 ? "is" : "are";
  if (options.devices)
    return {llvm::formatv("{0} of the {1} devices of {2} {3} used; leave --devices away to use all", used,
                          shape.devicesOfMachine, options.machine, are)};
  return {llvm::formatv("the first {0}of the {1} devices of {2} {3} used, as many as --mesh takes",
                        used == 1 ? "" : std::to_string(used) + " ", shape.devicesOfMachine, options.machine,
                        are)};
}

llvm::Error checkScheduleName(StringRef name) {
  if (llvm::is_contained({"1f1b", "zb-h1"}, name))
    return wrongUsage(
        "--schedule " + name +
        ": orders backward passes, which plans without --train or --gradients do not have; use " +
        "gpipe or interleaved");
  if (!llvm::is_contained({"", "gpipe", "interleaved", "auto"}, name))
    return wrongUsage("--schedule " + name + ": not a schedule; use gpipe, interleaved or auto");
  return llvm::Error::success();
}

static llvm::Error checkTrainingSchedule(StringRef name) {
  if (!llvm::is_contained({"", "auto", "gpipe", "1f1b", "interleaved", "zb-h1"}, name))
    return wrongUsage("--schedule " + name +
                      ": not a schedule of training; use gpipe, 1f1b, interleaved, zb-h1 or auto");
  return llvm::Error::success();
}

static llvm::Error checkTraining(const CompileOptions &options) {
  if (auto error = checkTrainingSchedule(options.schedule))
    return error;
  const TrainingChoice &choice = *options.training;
  if (!llvm::is_contained({"auto", "none", "selective", "full"}, choice.recompute))
    return wrongUsage("--recompute " + choice.recompute + ": found \"" + choice.recompute +
                      "\", expected none, selective, full or auto");
  if (choice.zero > kMaxZeroStage)
    return wrongUsage("--zero " + llvm::Twine(*choice.zero) + ": expected 0 to " +
                      llvm::Twine(kMaxZeroStage));
  if (!choice.interleave)
    return llvm::Error::success();
  const std::string option = "--interleave " + std::to_string(*choice.interleave);
  if (*choice.interleave < 2 || *choice.interleave > kMaxInterleaved)
    return wrongUsage(option + ": expected 2 to " + llvm::Twine(kMaxInterleaved));
  if (!llvm::is_contained({"", "auto", "interleaved"}, options.schedule))
    return wrongUsage(option + ": --schedule " + options.schedule +
                      " has one stage a device; give --schedule interleaved, or leave --interleave out");
  return llvm::Error::success();
}

/// Fails on options that shard among ranks if there is only one.
static llvm::Error checkShared(const TrainingChoice &choice, const MeshSearchSpace &space) {
  if (choice.zero.value_or(0) > 0 && space.dataParallelSize == 1)
    return wrongUsage(
        "--zero " + llvm::Twine(*choice.zero) +
        ": nothing to share state with; give --mesh dp=N with N of at least 2, or leave --zero out");
  if (choice.sequenceParallel && space.tensorParallelSize == 1)
    return wrongUsage(
        "--sequence-parallel: nothing to split over; give --mesh tp=N with N of at least 2, or leave it out");
  return llvm::Error::success();
}

/// Sets the training options that the search tries.
static void openTraining(const CompileOptions &options, bool isOpen, MeshSearchSpace &space) {
  const TrainingChoice &choice = *options.training;
  const bool isAuto = options.schedule.empty() || options.schedule == "auto";
  // Without a search: a number of stages implies the schedule.
  const TrainingSchedule usual =
      choice.interleave ? TrainingSchedule::Interleaved : TrainingSchedule::OneForwardOneBackward;
  for (TrainingSchedule schedule : {TrainingSchedule::Gpipe, TrainingSchedule::OneForwardOneBackward,
                                    TrainingSchedule::Interleaved, TrainingSchedule::ZeroBubbleH1})
    if (isAuto ? isOpen || schedule == usual : nameOf(schedule) == options.schedule)
      space.schedules.push_back(schedule);
  if (llvm::is_contained(space.schedules, TrainingSchedule::Interleaved))
    space.stagesPerRank.push_back(choice.interleave.value_or(2));
  if (space.schedules.size() > 1 || space.stagesPerRank.empty())
    space.stagesPerRank.insert(space.stagesPerRank.begin(), 1);
  for (std::optional<RecomputeKind> recompute :
       {std::optional<RecomputeKind>(), {RecomputeKind::Selective}, {RecomputeKind::Full}})
    if (choice.recompute == "auto" ? isOpen || !recompute
                                   : choice.recompute == (recompute ? nameOf(*recompute) : "none"))
      space.training.push_back({recompute, choice.sequenceParallel});
  space.zeroStages = {choice.zero.value_or(0)};
  for (uint32_t zero = 1; zero <= kMaxZeroStage && isOpen && !choice.zero; ++zero)
    space.zeroStages.push_back(zero);
}

/// Stages per rank that the schedule has, or may have.
static std::vector<uint32_t> stagesPerRank(StringRef schedule, bool isOpen) {
  if (schedule == "interleaved")
    return {2};
  return isOpen && (schedule.empty() || schedule == "auto") ? std::vector<uint32_t>{1, 2}
                                                            : std::vector<uint32_t>{1};
}

llvm::Expected<PipelineShape> readPipelineShape(const CompileOptions &options) {
  if (auto error = checkPipelineWords(options))
    return error;
  if (auto error = options.training    ? checkTraining(options)
                   : options.gradients ? checkTrainingSchedule(options.schedule)
                                       : checkScheduleName(options.schedule))
    return error;
  if (!llvm::is_contained({"traced", "bf16"}, options.dtype))
    return wrongUsage("--dtype " + options.dtype + ": found \"" + options.dtype +
                      "\", expected bf16, or traced for the dtypes that the model was traced with");
  auto rules = readShardOptions(options);
  if (!rules)
    return rules.takeError();
  auto shape = readRanks(options);
  if (!shape)
    return shape;
  const bool isOpen = shape->search.has_value();
  if (!rules->empty() && (isOpen ? shape->search->tensorParallelSize == 1 : shape->tensorParallelSize < 2))
    return wrongUsage("--shard " + rules->front() +
                      ": nothing to split over; give --mesh tp=N with N of at least 2");
  shape->shard = std::move(*rules);
  shape->microbatches = options.microbatches.value_or(isOpen ? 0 : 1);
  if (options.training) {
    if (!isOpen)
      shape->search = {shape->rankCount(),
                       shape->pipelineParallelSize,
                       shape->tensorParallelSize,
                       shape->dataParallelSize,
                       {}};
    if (auto error = checkShared(*options.training, *shape->search))
      return error;
    openTraining(options, isOpen, *shape->search);
  } else if (isOpen)
    shape->search->stagesPerRank = stagesPerRank(options.schedule, isOpen);
  else
    shape->stages = shape->pipelineParallelSize * stagesPerRank(options.schedule, isOpen).front();
  return shape;
}

} // namespace cleave
