//===- AssignSchedule.cpp - Ranks and micro-batches -----------------------===//
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/OperatorDialect.h"
#include "ir/ParkedObserves.h"
#include "partitioner/cost/ModelGraph.h"
#include "partitioner/machine/MachineFile.h"
#include "partitioner/sharding/BatchAnalysis.h"
#include "partitioner/simulation/Schedules.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_ASSIGNSCHEDULE
#include "passes/Passes.h.inc"

/// The limit of --microbatches.
static constexpr int64_t kMaxMicrobatches = 65536;

namespace {
struct AssignSchedule : impl::AssignScheduleBase<AssignSchedule> {
  using AssignScheduleBase::AssignScheduleBase;

  void runOnOperation() override {
    llvm::DenseSet<Value> dependent;
    {
      ParkedObserves parked(getOperation());
      assign(dependent);
    }
    // They are no capture points: values of parts, concatenated, are not that of the whole batch.
    for (Operation &op : llvm::make_early_inc_range(getOperation().getBody().front())) {
      if (auto observe = dyn_cast<ObserveOp>(op); observe && dependent.contains(observe.getValue())) {
        observe.erase();
      } else if (auto boundary = dyn_cast<BoundaryOp>(op);
                 boundary && dependent.contains(boundary.getValue())) {
        boundary.replaceAllUsesWith(boundary.getValue());
        boundary.erase();
      }
    }
  }

  void assign(llvm::DenseSet<Value> &dependent) {
    func::FuncOp function = getOperation();
    if (!order.empty() && !trainingScheduleNamed(order))
      return fail("found the order \"" + order + "\", expected gpipe, 1f1b, interleaved or zb-h1");
    if (ranks == 0)
      return fail("found 0 ranks, expected at least 1");
    if (ranks > kMaxRanks)
      return fail("found " + Twine(ranks) + " ranks, expected at most " + Twine(kMaxRanks));
    if (dp == 0 || dp > kMaxRanks)
      return fail("found dp=" + Twine(dp) + ", expected 1 to " + Twine(kMaxRanks));
    const uint32_t tensorParallelSize = tensorParallelSizeOf(function), width = tensorParallelSize * dp;
    const size_t devices = size_t(ranks) * width;
    auto target = machine.empty() ? llvm::Expected<Machine>(Machine::cpu(devices)) : Machine::load(machine);
    if (!target)
      return fail(llvm::toString(target.takeError()));
    auto obstacle = microbatches == 1 && dp == 1 ? std::nullopt : findBatchObstacle(function, batch);
    if (obstacle && (microbatches > 1 || dp > 1))
      return report(*obstacle);
    const PipelineDeviceGroups groups(*target, ranks, width, tensorParallelSize);
    unsigned count = microbatches;
    if (count == 0)
      count = obstacle ? 1 : fastestCount(function, groups);
    Builder b(function.getContext());
    ExampleShapes shapes(function);
    const uint64_t parts = uint64_t(count) * dp;
    const int64_t largest = llvm::divideCeil(shapes.sizes().lookup(batch), parts);
    auto seconds = secondsAt(parts > 1 ? shapes.resized(batch, largest) : shapes, groups);
    StringAttr split, reason;
    if (parts > 1) {
      split = b.getStringAttr(batch);
      dependent = valuesThatDependOnSplit(function, batch);
    } else if (obstacle) {
      reason = b.getStringAttr(obstacle->describe());
    }
    setDecision<ScheduleAttr>(function,
                              ScheduleAttr::get(b.getContext(), ranks, dp, count, split, reason,
                                                b.getDenseF64ArrayAttr(seconds),
                                                order.empty() ? StringAttr() : b.getStringAttr(order)));
    setDecision<TargetAttr>(function, describe(*target, devices, width));
  }

  /// What is kept of the machine, of whose devices so many are used, `width` for each rank of the pipeline.
  TargetAttr describe(const Machine &target, size_t devices, uint32_t width) {
    Builder b(&getContext());
    ArrayAttr overrides, names;
    DenseI64ArrayAttr threads, limits;
    if (auto links = linkOverridesAmong(target, devices, width); !links.empty())
      overrides = describe(links);
    if (devices <= target.devices.size()) {
      SmallVector<StringRef> ownNames;
      SmallVector<int64_t> ownThreads, ownLimits;
      for (const DeviceSpec &device : ArrayRef(target.devices).take_front(devices)) {
        ownNames.push_back(device.name);
        ownThreads.push_back(device.threads);
        ownLimits.push_back(device.memoryBytes.value_or(0));
      }
      names = b.getStrArrayAttr(ownNames);
      threads = b.getDenseI64ArrayAttr(ownThreads);
      if (llvm::any_of(ownLimits, [](int64_t bytes) { return bytes > 0; }))
        limits = b.getDenseI64ArrayAttr(ownLimits);
    }
    return TargetAttr::get(b.getContext(), b.getStringAttr(checksumOf(target)),
                           speedOf(target.linkAmong(devices)), overrides, names, threads, limits);
  }

  DenseF64ArrayAttr speedOf(const Link &link) {
    return Builder(&getContext()).getDenseF64ArrayAttr({link.latencySeconds, link.bytesPerSecond});
  }

  void fail(const Twine &message) {
    getOperation().emitError() << message;
    signalPassFailure();
  }

  void report(const BatchObstacle &obstacle) {
    const StringRef what =
        dp == 1            ? "micro-batches are not parts of it; use --microbatches 1"
        : microbatches > 1 ? "dp and micro-batches do not split it; use dp=1 in --mesh, and --microbatches 1"
                           : "dp does not split it; use dp=1 in --mesh";
    obstacle.op->emitError() << obstacle.operationName() << " " << obstacle.reason << ", so " << what;
    signalPassFailure();
  }

  ArrayAttr describe(const std::map<std::pair<uint32_t, uint32_t>, Link> &links) {
    Builder b(&getContext());
    SmallVector<Attribute> entries;
    for (const auto &[ends, link] : links)
      entries.push_back(LinkOverrideAttr::get(b.getContext(), ends.first, ends.second, speedOf(link)));
    return b.getArrayAttr(entries);
  }

  /// By stage: seconds on a batch of `size`.
  SmallVector<double> secondsAt(const ExampleShapes &shapes, const PipelineDeviceGroups &groups) {
    auto cut = decisionOf<CutAttr>(getOperation());
    SmallVector<double> seconds(cut ? cut.getSeconds().size() : 1);
    for (Operation &op : getOperation().getBody().front().without_terminator())
      if (auto stage = stageIndexOf(&op)) {
        seconds.resize(std::max<size_t>(seconds.size(), *stage + 1));
        seconds[*stage] += operationSeconds(&op, shapes, groups.kinds[groups.ranks[*stage % ranks].kind]);
      }
    return seconds;
  }

  /// The number of micro-batches, at most the samples of a data-parallel rank, with the shortest time: the
  /// first micro-batch passes all stages, the others follow at the pace of the slowest rank (Huang et al.
  /// 2019).
  unsigned fastestCount(func::FuncOp function, const PipelineDeviceGroups &groups) {
    ExampleShapes shapes(function);
    const int64_t size = llvm::divideCeil(shapes.sizes().lookup(batch), dp);
    unsigned best = 1;
    double bestSeconds = std::numeric_limits<double>::infinity();
    for (int64_t count = 1; count <= std::min(size, kMaxMicrobatches); ++count) {
      // Other numbers give parts of unequal size, which cost as much as the largest.
      if (size % count != 0)
        continue;
      SmallVector<double> perRank(ranks);
      double first = 0;
      for (auto [stage, seconds] : llvm::enumerate(secondsAt(shapes.resized(batch, size / count), groups))) {
        perRank[stage % ranks] += seconds;
        first += seconds;
      }
      double seconds = first + (count - 1) * *llvm::max_element(perRank);
      if (seconds < bestSeconds) {
        bestSeconds = seconds;
        best = count;
      }
    }
    return best;
  }
};
} // namespace

} // namespace cleave
