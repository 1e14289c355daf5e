//===- Profile.cpp - Measures a machine -----------------------------------===//
#include "tools/driver/profile/Profile.h"
#include "runtime/base/Exceptions.h"
#include "runtime/profile/KernelTimer.h"
#include "tools/driver/base/UsageError.h"
#include "tools/driver/profile/MeasurementRounds.h"
#include "tools/driver/profile/ProfiledCalls.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <unistd.h>

namespace cleave {

using at::IValue;
using at::Tensor;
using llvm::Error;
using runtime::KernelTimer;
using torch::jit::Stack;

namespace {
/// The axes of a table of GEMMs, in the order of GemmShape.
struct ShapeGrid {
  std::vector<double> counts, rows, columns, depths;
};

/// Operands at a different position in each turn.
KernelTimer::Operands inTurn(int64_t turns, std::function<Stack(uint32_t rank, int64_t turn)> make) {
  return [turns, make = std::move(make)](uint32_t rank) {
    std::vector<Stack> stacks;
    for (int64_t turn = 0; turn < turns; ++turn)
      stacks.push_back(make(rank, turn));
    return stacks;
  };
}

class Profiler {
public:
  Profiler(const ProfileOptions &options, KernelTimer &timer) : options(options), timer(timer) {}
  Error run(Machine &machine);
  /// Only between the timer's devices.
  Error run(CollectiveCosts &collectives);

private:
  /// Runs `measure` in as many rounds as requested.
  Error inRounds(llvm::function_ref<Error()> measure);
  /// Makes operands for a GEMM shape; `rank` and `turn` select the position of weights.
  using MakeProduct = std::function<Stack(const GemmShape &shape, uint32_t rank, int64_t turn)>;

  /// Measures everything once more.
  Error measure(Machine &machine);
  Error measureCalls();
  Error measureMatrices(KernelRates &rates);
  Error measureConvolutions(KernelRates &rates);
  Error measureAttention(KernelRates &rates);
  Error measureTable(RateTable &table, GemmKind kind, const char *name, const ShapeGrid &grid,
                     const MakeProduct &make);
  Error measureOperators(KernelRates &rates);
  Error measureBytes(RateTable &table, const char *name, const OperatorCall::Make &make);
  Error measureCollectives(CollectiveCosts &collectives);
  llvm::Expected<CollectiveCosts::Measured> measureCollective(CollectiveKind kind, llvm::StringRef name);
  llvm::Expected<double> secondsOf(const KernelTimer::Call &timed,
                                   const KernelTimer::Call *before = nullptr) {
    return rounds.addSample(timer.secondsOf(timed, before));
  }

  std::vector<double> sizes(std::vector<double> all) const {
    return options.quick && all.size() > 2 ? std::vector<double>{all.front(), all[all.size() / 2]} : all;
  }
  void begin(const llvm::Twine &step) {
    if (options.progress)
      options.progress(step.str(), std::nullopt);
  }

  const ProfileOptions &options;
  KernelTimer &timer;
  const WeightPool weights;
  /// Work of a program between two operators that move data: a GEMM of a millisecond or less, which leaves
  /// its own data in caches. Its weights differ each time.
  const KernelTimer::Call work{"aten::linear", inTurn(16, [this](uint32_t rank, int64_t turn) {
                                 const int64_t width = options.quick ? 64 : 768;
                                 return Stack{weights({128, width}, rank, 0),
                                              weights({width, width}, rank, turn), IValue()};
                               })};
  double callSeconds = 0;
  MeasurementRounds rounds;
};
} // namespace

/// A point with more work gets the rate of one with fewer rows, or fewer GEMMs.
static constexpr double kMaxFlops = 30e9, kMaxFlopsQuick = 5e7;

/// Messages between devices that take longer are skipped, as far as that is known before.
static double longestMessage(const ProfileOptions &options) { return options.quick ? 0.25 : 1; }

/// Seconds beyond the call itself, as far as they can be told apart.
static double beyond(double seconds, double call) { return std::max(seconds - call, seconds / 10); }

//===- Products -----------------------------------------------------------===//

Error Profiler::measureTable(RateTable &table, GemmKind kind, const char *name, const ShapeGrid &grid,
                             const MakeProduct &make) {
  const double most = options.quick ? kMaxFlopsQuick : kMaxFlops;
  std::vector<std::vector<double>> axes = {sizes(grid.counts), sizes(grid.rows), sizes(grid.columns),
                                           sizes(grid.depths)};
  const size_t depths = axes[3].size(), row = axes[2].size() * depths, count = axes[1].size() * row;
  std::vector<double> rates;
  for (double each : axes[0])
    for (double rows : axes[1])
      for (double columns : axes[2])
        for (double depth : axes[3]) {
          const GemmShape shape{kind, each, rows, columns, depth};
          const double products = kind == GemmKind::Attention ? 2 : 1;
          const double flops = 2 * products * each * rows * columns * depth;
          const bool hasFewer = rates.size() % count >= row || rates.size() >= count;
          if (flops > most && hasFewer) {
            rates.push_back(rates[rates.size() - (rates.size() % count >= row ? row : count)]);
            continue;
          }
          // … or of an equally wide one with less depth.
          if (columns * depth > WeightPool::kElements) {
            rates.push_back(rates.back());
            continue;
          }
          begin(llvm::formatv("{0}: {1} x {2} x {3} x {4}", name, int64_t(each), int64_t(rows),
                              int64_t(columns), int64_t(depth)));
          const int64_t turns = std::clamp<int64_t>(WeightPool::kElements / int64_t(columns * depth), 1, 64);
          auto seconds = secondsOf(
              {name, inTurn(turns, [&](uint32_t rank, int64_t turn) { return make(shape, rank, turn); })});
          if (!seconds)
            return seconds.takeError();
          rates.push_back(rounded(flops / beyond(*seconds, callSeconds)));
        }
  table = RateTable(std::move(axes), std::move(rates));
  return Error::success();
}

Error Profiler::measureMatrices(KernelRates &rates) {
  auto linear = [this](at::ScalarType dtype) {
    return [this, dtype](const GemmShape &shape, uint32_t rank, int64_t turn) {
      const int64_t rows = shape.rows, columns = shape.columns, depth = shape.depth;
      return Stack{weights({rows, depth}, rank, 0, dtype), weights({columns, depth}, rank, turn, dtype),
                   weights({columns}, rank, 0, dtype)};
    };
  };
  const ShapeGrid whole{{1}, {1, 8, 32, 128, 512, 2048}, {64, 256, 768, 3072, 32768}, {64, 256, 768, 3072}};
  if (Error error = measureTable(rates.gemms[{GemmKind::Matrix, "float32"}], GemmKind::Matrix, "aten::linear",
                                 whole, linear(at::kFloat)))
    return error;
  const ShapeGrid narrow{{1}, {1, 32, 512}, {256, 768, 3072}, {256, 768, 3072}};
  return measureTable(rates.gemms[{GemmKind::Matrix, "bfloat16"}], GemmKind::Matrix, "aten::linear", narrow,
                      linear(at::kBFloat16));
}

/// Square images; the depth includes all taps.
Error Profiler::measureConvolutions(KernelRates &rates) {
  const struct {
    GemmKind kind;
    int64_t side, stride;
    ShapeGrid grid;
  } kinds[] = {
      {GemmKind::Pointwise, 1, 1, {{1, 8}, {49, 196, 784, 3136}, {32, 64, 256, 1024}, {64, 256, 1024}}},
      {GemmKind::Convolution,
       3,
       1,
       {{1, 8}, {49, 196, 784, 3136}, {64, 128, 512}, {9 * 64, 9 * 128, 9 * 512}}},
      {GemmKind::Strided, 3, 2, {{1, 8}, {49, 196, 784, 12544}, {64, 512}, {9 * 16, 9 * 128, 9 * 512}}},
  };
  for (const auto &[kind, side, stride, grid] : kinds) {
    auto convolution = [this, side = side, stride = stride](const GemmShape &shape, uint32_t rank,
                                                            int64_t turn) {
      const int64_t images = shape.count, places = stride * std::lround(std::sqrt(shape.rows)),
                    columns = shape.columns, channels = shape.depth / double(side * side);
      return Stack{weights({images, channels, places, places}, rank, 0),
                   weights({columns, channels, side, side}, rank, turn),
                   IValue(),
                   std::vector<int64_t>{stride, stride},
                   std::vector<int64_t>{side / 2, side / 2},
                   std::vector<int64_t>{1, 1},
                   int64_t(1)};
    };
    if (Error error = measureTable(rates.gemms[{kind, "float32"}], kind, "aten::conv2d", grid, convolution))
      return error;
  }
  return Error::success();
}

/// Queries, keys and values are parts of the result of one GEMM.
Error Profiler::measureAttention(KernelRates &rates) {
  auto attention = [this](const GemmShape &shape, uint32_t rank, int64_t) {
    auto heads = [&](double places, int64_t turn) {
      return weights({1, int64_t(places), int64_t(shape.count), int64_t(shape.depth)}, rank, turn)
          .transpose(1, 2);
    };
    return Stack{heads(shape.rows, 0),
                 heads(shape.columns, 1),
                 heads(shape.columns, 2),
                 IValue(),
                 0.0,
                 false,
                 IValue(),
                 false};
  };
  const ShapeGrid heads{{12}, {1, 32, 128, 512}, {32, 128, 512}, {64}};
  return measureTable(rates.gemms[{GemmKind::Attention, "float32"}], GemmKind::Attention,
                      "aten::scaled_dot_product_attention", heads, attention);
}

//===- Operators ----------------------------------------------------------===//

/// Bytes of tensors among the values.
static double bytesOf(const Stack &values) {
  double bytes = 0;
  for (const IValue &value : values)
    if (value.isTensor())
      bytes += value.toTensor().nbytes();
    else if (value.isTensorList())
      for (const Tensor &tensor : value.toTensorVector())
        bytes += tensor.nbytes();
  return bytes;
}

Error Profiler::measureBytes(RateTable &table, const char *name, const OperatorCall::Make &make) {
  // A result is in a cache that cores share, or in memory.
  constexpr double kCacheBytes = 8 << 20;
  std::vector<double> bytes, rates;
  for (double elements : sizes({1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22})) {
    begin(llvm::formatv("{0}: {1} elements", name, int64_t(elements)));
    const double own = bytesOf(make(elements, 0, 0)) + 4 * elements;
    const int64_t turns = std::clamp<int64_t>(kCacheBytes / own, 1, 64);
    auto seconds = secondsOf(
        {name, inTurn(turns, [&](uint32_t rank, int64_t turn) { return make(elements, rank, turn); })},
        &work);
    if (!seconds)
      return seconds.takeError();
    bytes.push_back(own);
    rates.push_back(rounded(own / beyond(*seconds, callSeconds)));
  }
  table = RateTable({std::move(bytes)}, std::move(rates));
  return Error::success();
}

Error Profiler::measureOperators(KernelRates &rates) {
  for (const auto &calls : {elementwiseCalls(weights), rowwiseCalls(weights), channelwiseCalls(weights)})
    for (const OperatorCall &call : calls)
      if (Error error = measureBytes(rates.operators[call.name], call.kernel, call.make))
        return error;
  rates.otherOperators = rates.operators["aten.add"];
  return Error::success();
}

Error Profiler::measureCalls() {
  begin("the call of an operator");
  auto one = [&](uint32_t rank) { return std::vector<Stack>{Stack{weights({1}, rank, 0)}}; };
  auto seconds = secondsOf({"aten::relu", one});
  if (!seconds)
    return seconds.takeError();
  callSeconds = rounded(*seconds);
  return Error::success();
}

//===- Between devices ----------------------------------------------------===//

/// Cost of a message's bytes: reading them takes longer than reading the reader's own data.
static Error measureMessages(const ProfileOptions &options, KernelTimer &timer, MeasurementRounds &rounds,
                             Link &link) {
  // With one device nothing is sent.
  link = {0, 1e12};
  if (timer.devices() == 1)
    return Error::success();
  if (options.progress)
    options.progress("transfers", std::nullopt);
  std::vector<TimedMessage> messages;
  const std::vector<int64_t> sizes = timer.messageBytes();
  for (auto [index, bytes] : llvm::enumerate(sizes)) {
    // Small messages say little about the rate; two at least.
    if (index > 1 && rounds.isTooLarge("transfers", bytes))
      break;
    auto own = rounds.addSample(timer.secondsOfMessage(bytes, /*sends=*/false));
    if (!own)
      return own.takeError();
    auto over = rounds.addSample(timer.secondsOfMessage(bytes, /*sends=*/true));
    if (!over)
      return over.takeError();
    messages.push_back({double(bytes), *over - *own});
    if (index > 0 && index + 1 < sizes.size())
      rounds.limit("transfers", bytes, *over, sizes[index + 1], longestMessage(options));
  }
  const Link found = fitLink(messages);
  link = {rounded(found.latencySeconds), rounded(found.bytesPerSecond)};
  return Error::success();
}

llvm::Expected<CollectiveCosts::Measured> Profiler::measureCollective(CollectiveKind kind,
                                                                      llvm::StringRef name) {
  const int64_t ranks = timer.devices();
  CollectiveCosts::Measured measured;
  measured.ranks = ranks;
  std::vector<double> bytes, rates;
  constexpr double sizes[] = {1 << 6, 1 << 12, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23};
  for (auto [index, elements] : llvm::enumerate(sizes)) {
    const bool isFirst = index == 0;
    if (index > 1 && rounds.isTooLarge(name.str(), elements))
      break;
    begin(llvm::formatv("{0}: {1} elements", name, int64_t(elements)));
    const double all = 4 * elements * (kind == CollectiveKind::AllToAll ? ranks : 1);
    auto operands = [&](uint32_t rank) {
      return std::vector<Stack>{collectiveOperands(weights, kind, elements, rank, ranks)};
    };
    // As in programs: after work, which takes longest on some rank.
    auto seconds = secondsOf({"spmd::" + name.str(), operands}, &work);
    if (!seconds)
      return seconds.takeError();
    const double beyondCall = beyond(*seconds, callSeconds);
    // The time of a tiny message is the latency.
    if (isFirst) {
      measured.latencySeconds = rounded(beyondCall);
      continue;
    }
    bytes.push_back(all);
    rates.push_back(
        rounded(CollectiveCosts::bytesSent(kind, all, ranks) / beyond(beyondCall, measured.latencySeconds)));
    if (index + 1 < std::size(sizes))
      rounds.limit(name.str(), elements, *seconds, sizes[index + 1], longestMessage(options));
  }
  measured.bytesPerSecond = RateTable({std::move(bytes)}, std::move(rates));
  return measured;
}

Error Profiler::measureCollectives(CollectiveCosts &collectives) {
  if (timer.devices() == 1)
    return Error::success();
  for (auto [index, name] : llvm::enumerate(kCollectiveKinds)) {
    const CollectiveKind kind{int(index)};
    auto measured = measureCollective(kind, name);
    if (!measured)
      return measured.takeError();
    collectives.measurementOf(kind) = std::move(*measured);
  }
  return Error::success();
}

//===- The whole ----------------------------------------------------------===//

Error Profiler::measure(Machine &machine) {
  if (Error error = measureCalls())
    return error;
  auto rates = std::make_shared<KernelRates>();
  for (auto measure : {&Profiler::measureMatrices, &Profiler::measureConvolutions,
                       &Profiler::measureAttention, &Profiler::measureOperators})
    if (Error error = (this->*measure)(*rates))
      return error;
  if (Error error = measureMessages(options, timer, rounds, machine.link))
    return error;
  machine.collectives = machine.link;
  if (Error error = measureCollectives(machine.collectives))
    return error;
  const RateTable &gemms = rates->gemms[{GemmKind::Matrix, "float32"}];
  for (DeviceSpec &device : machine.devices) {
    device.dispatchSeconds = callSeconds;
    device.flopsPerSecond = *llvm::max_element(gemms.allRates());
    device.memoryBytesPerSecond = rates->otherOperators.allRates().back();
    device.rates = rates;
  }
  return Error::success();
}

Error Profiler::run(Machine &machine) {
  for (const std::string &name : options.devices) {
    const int64_t all = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    machine.devices.emplace_back(DeviceSpec{name, 0, 0, 0, all / int64_t(options.devices.size())}).threads =
        timer.threads();
  }
  return inRounds([&] { return measure(machine); });
}

Error Profiler::run(CollectiveCosts &collectives) {
  return inRounds([&] {
    Error error = measureCalls();
    return error ? std::move(error) : measureCollectives(collectives);
  });
}

Error Profiler::inRounds(llvm::function_ref<Error()> measure) {
  for (int round = 0; round < options.rounds; ++round) {
    rounds.restart();
    if (Error error = measure())
      return error;
  }
  return Error::success();
}

Error checkDevicesOnce(llvm::ArrayRef<std::string> devices) {
  for (size_t index = 0; index < devices.size(); ++index)
    if (llvm::is_contained(devices.take_front(index), devices[index]))
      return wrongUsage("--devices " + llvm::join(devices, ",") + ": " + devices[index] +
                        " is given twice; give each once");
  return Error::success();
}

double measurementSecondsOf(const ProfileOptions &options) { return options.quick ? 0.0005 : 0.015; }

llvm::Expected<Machine> profile(const ProfileOptions &options) {
  if (Error error = checkDevicesOnce(options.devices))
    return error;
  auto timer = KernelTimer::open(options.devices, measurementSecondsOf(options));
  if (!timer)
    return timer.takeError();
  return profile(options, **timer);
}

llvm::Expected<Machine> profile(const ProfileOptions &options, KernelTimer &timer) {
  return runtime::catching([&]() -> llvm::Expected<Machine> {
    Machine machine;
    Profiler profiler(options, timer);
    if (Error error = profiler.run(machine))
      return error;
    return machine;
  });
}

llvm::Expected<Link> profileLink(const ProfileOptions &options, KernelTimer &timer) {
  return runtime::catching([&]() -> llvm::Expected<Link> {
    Link link;
    MeasurementRounds rounds;
    for (int round = 0; round < options.rounds; ++round) {
      rounds.restart();
      if (Error error = measureMessages(options, timer, rounds, link))
        return error;
    }
    return link;
  });
}

llvm::Expected<CollectiveCosts> profileCollectives(const ProfileOptions &options, KernelTimer &timer) {
  return runtime::catching([&]() -> llvm::Expected<CollectiveCosts> {
    CollectiveCosts collectives;
    Profiler profiler(options, timer);
    if (Error error = profiler.run(collectives))
      return error;
    return collectives;
  });
}

} // namespace cleave
