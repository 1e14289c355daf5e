//===- Profile.cpp - A machine from measurements --------------------------===//
#include "tools/driver/Profile.h"
#include "runtime/Exceptions.h"
#include "runtime/KernelTimer.h"
#include "tools/driver/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace cleave {

using at::IValue;
using at::Tensor;
using llvm::Error;
using runtime::KernelTimer;
using torch::jit::Stack;

namespace {
/// The axes of a table of products, in the order of ProductShape.
struct ShapeGrid {
  std::vector<double> counts, rows, columns, depths;
};

class Profiler {
public:
  Profiler(const ProfileOptions &options, std::unique_ptr<KernelTimer> timer);
  Error run(Machine &machine);

private:
  /// Makes a call's operands of the shape; `rank` and `turn` say where weights lie.
  using MakeProduct = std::function<Stack(const ProductShape &shape, uint32_t rank, int64_t turn)>;
  using MakeOperator = std::function<Stack(int64_t elements, uint32_t rank, int64_t turn)>;
  struct OperatorCall {
    /// As programs call it, and as libtorch does.
    const char *name, *kernel;
    MakeOperator make;
  };

  Error measureCalls(Machine &machine);
  Error measureMatrices(KernelRates &rates);
  Error measureConvolutions(KernelRates &rates);
  Error measureAttention(KernelRates &rates);
  Error measureTable(RateTable &table, ProductKind kind, const char *name, const ShapeGrid &grid,
                     const MakeProduct &make);
  std::vector<OperatorCall> elementwiseCalls();
  std::vector<OperatorCall> rowwiseCalls();
  Error measureOperators(KernelRates &rates);
  Error measureBytes(RateTable &table, const char *name, const MakeOperator &make);
  Error measureHandover(Machine &machine);
  Error measureCollectives(Machine &machine);
  llvm::Expected<double> secondsOfHandover(int64_t bytes, bool handsOver);

  /// Values of the pool in this shape; other ones each turn, so that they come from memory as weights do.
  Tensor weight(at::IntArrayRef sizes, uint32_t rank, int64_t turn, at::ScalarType dtype = at::kFloat);
  std::vector<double> sizes(std::vector<double> all) const {
    return options.quick && all.size() > 2 ? std::vector<double>{all.front(), all[all.size() / 2]} : all;
  }
  void begin(const llvm::Twine &step) {
    if (options.progress)
      options.progress(step.str(), std::nullopt);
  }

  const ProfileOptions &options;
  std::unique_ptr<KernelTimer> timer;
  /// More than caches hold, float32 and bfloat16.
  const Tensor pool, narrowPool;
  double callSeconds = 0;
};
} // namespace

static constexpr int64_t kPoolElements = 64 << 20;
/// A point with more work than that takes the rate of one with fewer rows, or fewer products.
static constexpr double kMostFlops = 20e9, kMostFlopsQuick = 5e7;

/// Four digits, which is what measurements are good for.
static double rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return std::strtod(text, nullptr);
}

/// What calls take beyond the call itself, as far as that can be told apart.
static double beyond(double seconds, double call) { return std::max(seconds - call, seconds / 10); }

/// In bfloat16, by this thread alone: threads of OpenMP spin between the parts of an operator only where the process has no
/// more of them than cores, so that the devices' would be measured asleep if this thread had had some of its own.
static Tensor narrowed(const Tensor &wide) {
  constexpr int64_t kStep = at::internal::GRAIN_SIZE / 2;
  Tensor narrow = at::empty(wide.sizes(), at::kBFloat16);
  for (int64_t begin = 0; begin < wide.numel(); begin += kStep) {
    const int64_t count = std::min(kStep, wide.numel() - begin);
    narrow.narrow(0, begin, count).copy_(wide.narrow(0, begin, count));
  }
  return narrow;
}

Profiler::Profiler(const ProfileOptions &options, std::unique_ptr<KernelTimer> timer)
    : options(options), timer(std::move(timer)), pool(at::rand({kPoolElements})), narrowPool(narrowed(pool)) {}

Tensor Profiler::weight(at::IntArrayRef sizes, uint32_t rank, int64_t turn, at::ScalarType dtype) {
  const int64_t elements = c10::multiply_integers(sizes), room = kPoolElements - elements;
  TORCH_CHECK(room >= 0, "found a weight of ", elements, " elements, expected ", kPoolElements, " at most");
  // Ranks read different ones at the same time; cache lines begin where weights do.
  const int64_t begin = (rank * (kPoolElements / 4) + turn * elements) % (room + 1) / 16 * 16;
  return (dtype == at::kFloat ? pool : narrowPool).narrow(0, begin, elements).view(sizes);
}

//===- Products -----------------------------------------------------------===//

Error Profiler::measureTable(RateTable &table, ProductKind kind, const char *name, const ShapeGrid &grid,
                             const MakeProduct &make) {
  const double most = options.quick ? kMostFlopsQuick : kMostFlops;
  std::vector<std::vector<double>> axes = {sizes(grid.counts), sizes(grid.rows), sizes(grid.columns),
                                           sizes(grid.depths)};
  const size_t depths = axes[3].size(), row = axes[2].size() * depths, count = axes[1].size() * row;
  std::vector<double> rates;
  for (double each : axes[0])
    for (double rows : axes[1])
      for (double columns : axes[2])
        for (double depth : axes[3]) {
          const ProductShape shape{kind, each, rows, columns, depth};
          const double products = kind == ProductKind::Attention ? 2 : 1;
          const double flops = 2 * products * each * rows * columns * depth;
          const bool hasFewer = rates.size() % count >= row || rates.size() >= count;
          if (flops > most && hasFewer) {
            rates.push_back(rates[rates.size() - (rates.size() % count >= row ? row : count)]);
            continue;
          }
          begin(llvm::formatv("{0}: {1} x {2} x {3} x {4}", name, int64_t(each), int64_t(rows),
                              int64_t(columns), int64_t(depth)));
          const int64_t turns = std::clamp<int64_t>(kPoolElements / int64_t(columns * depth), 1, 64);
          auto seconds = timer->secondsOf(name, [&](uint32_t rank) {
            std::vector<Stack> stacks;
            for (int64_t turn = 0; turn < turns; ++turn)
              stacks.push_back(make(shape, rank, turn));
            return stacks;
          });
          if (!seconds)
            return seconds.takeError();
          rates.push_back(rounded(flops / beyond(*seconds, callSeconds)));
        }
  table = RateTable(std::move(axes), std::move(rates));
  return Error::success();
}

Error Profiler::measureMatrices(KernelRates &rates) {
  auto linear = [this](at::ScalarType dtype) {
    return [this, dtype](const ProductShape &shape, uint32_t rank, int64_t turn) {
      const int64_t rows = shape.rows, columns = shape.columns, depth = shape.depth;
      return Stack{weight({rows, depth}, rank, 0, dtype), weight({columns, depth}, rank, turn, dtype),
                   weight({columns}, rank, 0, dtype)};
    };
  };
  const ShapeGrid whole{{1}, {1, 8, 32, 128, 512, 2048}, {64, 256, 768, 3072}, {64, 256, 768, 3072}};
  if (Error error = measureTable(rates.products[{ProductKind::Matrix, "float32"}], ProductKind::Matrix,
                                 "aten::linear", whole, linear(at::kFloat)))
    return error;
  const ShapeGrid narrow{{1}, {1, 32, 512}, {256, 768, 3072}, {256, 768, 3072}};
  return measureTable(rates.products[{ProductKind::Matrix, "bfloat16"}], ProductKind::Matrix, "aten::linear",
                      narrow, linear(at::kBFloat16));
}

/// Of square images; the depth has all taps.
Error Profiler::measureConvolutions(KernelRates &rates) {
  const struct {
    ProductKind kind;
    int64_t side, stride;
    ShapeGrid grid;
  } kinds[] = {
      {ProductKind::Pointwise, 1, 1, {{1, 8}, {49, 196, 784, 3136}, {64, 256, 1024}, {64, 256, 1024}}},
      {ProductKind::Convolution,
       3,
       1,
       {{1, 8}, {49, 196, 784, 3136}, {64, 128, 512}, {9 * 64, 9 * 128, 9 * 512}}},
      {ProductKind::Strided, 3, 2, {{1, 8}, {49, 196, 784, 12544}, {64, 512}, {9 * 16, 9 * 128, 9 * 512}}},
  };
  for (const auto &[kind, side, stride, grid] : kinds) {
    auto convolution = [this, side = side, stride = stride](const ProductShape &shape, uint32_t rank,
                                                            int64_t turn) {
      const int64_t images = shape.count, places = stride * std::lround(std::sqrt(shape.rows)),
                    columns = shape.columns, channels = shape.depth / double(side * side);
      return Stack{weight({images, channels, places, places}, rank, 0),
                   weight({columns, channels, side, side}, rank, turn),
                   IValue(),
                   std::vector<int64_t>{stride, stride},
                   std::vector<int64_t>{side / 2, side / 2},
                   std::vector<int64_t>{1, 1},
                   int64_t(1)};
    };
    if (Error error =
            measureTable(rates.products[{kind, "float32"}], kind, "aten::conv2d", grid, convolution))
      return error;
  }
  return Error::success();
}

/// Queries, keys and values are parts of what one product made.
Error Profiler::measureAttention(KernelRates &rates) {
  auto attention = [this](const ProductShape &shape, uint32_t rank, int64_t) {
    auto heads = [&](double places, int64_t turn) {
      return weight({1, int64_t(places), int64_t(shape.count), int64_t(shape.depth)}, rank, turn)
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
  return measureTable(rates.products[{ProductKind::Attention, "float32"}], ProductKind::Attention,
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

Error Profiler::measureBytes(RateTable &table, const char *name, const MakeOperator &make) {
  // What was just made lies in a cache that cores share, or in memory.
  constexpr double kCacheBytes = 8 << 20;
  std::vector<double> bytes, rates;
  for (double elements : sizes({1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22})) {
    begin(llvm::formatv("{0}: {1} elements", name, int64_t(elements)));
    const double own = bytesOf(make(elements, 0, 0)) + 4 * elements;
    const int64_t turns = std::clamp<int64_t>(kCacheBytes / own, 1, 64);
    auto seconds = timer->secondsOf(name, [&](uint32_t rank) {
      std::vector<Stack> stacks;
      for (int64_t turn = 0; turn < turns; ++turn)
        stacks.push_back(make(elements, rank, turn));
      return stacks;
    });
    if (!seconds)
      return seconds.takeError();
    bytes.push_back(own);
    rates.push_back(rounded(own / beyond(*seconds, callSeconds)));
  }
  table = RateTable({std::move(bytes)}, std::move(rates));
  return Error::success();
}

/// Element by element, of any shape.
std::vector<Profiler::OperatorCall> Profiler::elementwiseCalls() {
  auto unary = [this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weight({elements}, rank, turn)};
  };
  auto binary = [this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weight({elements}, rank, 2 * turn), weight({elements}, rank, 2 * turn + 1)};
  };
  auto sum = [binary](int64_t elements, uint32_t rank, int64_t turn) {
    Stack stack = binary(elements, rank, turn);
    stack.emplace_back(1);
    return stack;
  };
  auto gelu = [this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weight({elements}, rank, turn), "tanh"};
  };
  return {{"aten.add", "aten::add.Tensor", sum},   {"aten.mul", "aten::mul.Tensor", binary},
          {"aten.relu", "aten::relu", unary},      {"aten.gelu", "aten::gelu", gelu},
          {"aten.silu", "aten::silu", unary},      {"aten.tanh", "aten::tanh", unary},
          {"aten.sigmoid", "aten::sigmoid", unary}};
}

/// By rows of numbers, or by channels.
std::vector<Profiler::OperatorCall> Profiler::rowwiseCalls() {
  constexpr int64_t width = 1024, side = 32;
  auto rows = [this](int64_t elements, uint32_t rank, int64_t turn) {
    return weight({elements / width, width}, rank, turn);
  };
  auto layerNorm = [=, this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn),
                 std::vector<int64_t>{width},
                 weight({width}, rank, 0),
                 weight({width}, rank, 1),
                 1e-5,
                 false};
  };
  auto rmsNorm = [=, this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn), std::vector<int64_t>{width}, weight({width}, rank, 0), 1e-5};
  };
  auto batchNorm = [this](int64_t elements, uint32_t rank, int64_t turn) {
    const int64_t channels = elements / side / side;
    Stack stack{weight({1, channels, side, side}, rank, turn)};
    for (int64_t i = 0; i < 4; ++i)
      stack.emplace_back(weight({channels}, rank, i));
    stack.insert(stack.end(), {false, 0.1, 1e-5, true});
    return stack;
  };
  // Of the result's elements, a quarter of the input's.
  auto pool = [this](int64_t elements, uint32_t rank, int64_t turn) {
    const std::vector<int64_t> twice = {2, 2}, one = {1, 1};
    return Stack{weight({1, elements / side / side, 2 * side, 2 * side}, rank, turn),
                 std::vector<int64_t>{3, 3},
                 twice,
                 one,
                 one,
                 false};
  };
  auto softmax = [=](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{rows(elements, rank, turn), -1, IValue()};
  };
  // Rows in another order, as of heads.
  auto copy = [this](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{weight({elements / width, width / 64, 64}, rank, turn).transpose(0, 1),
                 at::MemoryFormat::Contiguous};
  };
  auto join = [=](int64_t elements, uint32_t rank, int64_t turn) {
    return Stack{
        std::vector<Tensor>{rows(elements / 2, rank, 2 * turn), rows(elements / 2, rank, 2 * turn + 1)}, -1};
  };
  return {{"aten.softmax", "aten::softmax.int", softmax},
          {"aten.layer_norm", "aten::layer_norm", layerNorm},
          {"aten.rms_norm", "aten::rms_norm", rmsNorm},
          {"aten.batch_norm", "aten::batch_norm", batchNorm},
          {"aten.max_pool2d", "aten::max_pool2d", pool},
          {"aten.contiguous", "aten::contiguous", copy},
          {"aten.cat", "aten::cat", join}};
}

Error Profiler::measureOperators(KernelRates &rates) {
  for (const auto &calls : {elementwiseCalls(), rowwiseCalls()})
    for (const OperatorCall &call : calls)
      if (Error error = measureBytes(rates.operators[call.name], call.kernel, call.make))
        return error;
  rates.memory = rates.operators["aten.add"];
  return Error::success();
}

Error Profiler::measureCalls(Machine &machine) {
  begin("the call of an operator");
  auto one = [&](uint32_t rank) { return std::vector<Stack>{Stack{weight({1}, rank, 0)}}; };
  auto seconds = timer->secondsOf("aten::relu", one);
  if (!seconds)
    return seconds.takeError();
  callSeconds = rounded(*seconds);
  for (DeviceSpec &device : machine.devices)
    device.operatorSeconds = callSeconds;
  return Error::success();
}

//===- Between devices ----------------------------------------------------===//

llvm::Expected<double> Profiler::secondsOfHandover(int64_t bytes, bool handsOver) {
  std::vector<double> samples;
  for (int i = 0; i < (options.quick ? 1 : 5); ++i) {
    auto seconds = timer->secondsOfHandover(bytes, handsOver);
    if (!seconds)
      return seconds;
    samples.push_back(*seconds);
  }
  llvm::sort(samples);
  return samples[samples.size() / 2];
}

/// A tensor's bytes cost what reading them takes longer than if they were the reader's own.
Error Profiler::measureHandover(Machine &machine) {
  // One device hands nothing over.
  constexpr Link free = {0, 1e12};
  machine.link = free;
  if (timer->devices() == 1)
    return Error::success();
  begin("hand-overs");
  constexpr int64_t small = 4, large = 4 << 20;
  double seconds[2][2];
  for (bool handsOver : {false, true})
    for (bool isLarge : {false, true}) {
      auto found = secondsOfHandover(isLarge ? large : small, handsOver);
      if (!found)
        return found.takeError();
      seconds[handsOver][isLarge] = *found;
    }
  const double latency = seconds[true][false] - seconds[false][false],
               reading = seconds[true][true] - seconds[false][true] - latency;
  machine.link = {rounded(std::max(latency, 0.0)),
                  rounded(std::min(large / std::max(reading, 1e-9), free.bytesPerSecond))};
  return Error::success();
}

Error Profiler::measureCollectives(Machine &machine) {
  machine.collectives = machine.link;
  const int64_t ranks = timer->devices();
  if (ranks == 1)
    return Error::success();
  auto operandsOf = [&](CollectiveKind kind, int64_t elements, uint32_t rank) {
    const int64_t part = elements / ranks;
    std::vector<int64_t> pieces;
    for (int64_t each = 0; each < ranks; ++each)
      pieces.insert(pieces.end(), {each, 0, part});
    const std::vector<int64_t> ranges = {rank * part, part};
    switch (kind) {
    case CollectiveKind::AllReduce:
      return Stack{weight({elements}, rank, 0)};
    case CollectiveKind::AllGather:
      return Stack{weight({part}, rank, 0), 0, pieces};
    case CollectiveKind::ReduceScatter:
      return Stack{weight({elements}, rank, 0), 0, ranges};
    case CollectiveKind::AllToAll: {
      const int64_t columns = std::min<int64_t>(elements, 1024), rows = elements / columns;
      for (int64_t each = 0; each < ranks; ++each)
        pieces[3 * each + 2] = rows;
      return Stack{weight({rows, columns}, rank, 0), 0, pieces, 1,
                   std::vector<int64_t>{rank * (columns / ranks), columns / ranks}};
    }
    case CollectiveKind::Broadcast:
      return Stack{weight({elements}, rank, 0), 0};
    }
    return Stack();
  };
  for (auto [index, name] : llvm::enumerate(kCollectiveKinds)) {
    const CollectiveKind kind{int(index)};
    CollectiveCosts::Measured measured;
    measured.ranks = ranks;
    std::vector<double> bytes, rates;
    for (double elements : {1 << 6, 1 << 12, 1 << 15, 1 << 17, 1 << 19, 1 << 21}) {
      begin(llvm::formatv("{0}: {1} elements", name, int64_t(elements)));
      auto seconds = timer->secondsOf("spmd::" + name.str(), [&](uint32_t rank) {
        return std::vector<Stack>{operandsOf(kind, elements, rank)};
      });
      if (!seconds)
        return seconds.takeError();
      // What next to nothing takes is the latency.
      if (measured.latencySeconds == 0) {
        measured.latencySeconds = rounded(beyond(*seconds, callSeconds));
        continue;
      }
      const double all = 4 * elements * (kind == CollectiveKind::AllToAll ? ranks : 1);
      bytes.push_back(all);
      rates.push_back(rounded(CollectiveCosts::bytesSent(kind, all, ranks) /
                              beyond(beyond(*seconds, callSeconds), measured.latencySeconds)));
    }
    measured.bytesPerSecond = RateTable({std::move(bytes)}, std::move(rates));
    machine.collectives.of(kind) = std::move(measured);
  }
  return Error::success();
}

//===- The whole ----------------------------------------------------------===//

Error Profiler::run(Machine &machine) {
  for (const std::string &name : options.devices) {
    const int64_t all = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    machine.devices.emplace_back(DeviceSpec{name, 0, 0, 0, all / int64_t(options.devices.size())}).threads = timer->threads();
  }
  if (Error error = measureCalls(machine))
    return error;
  auto rates = std::make_shared<KernelRates>();
  for (auto measure : {&Profiler::measureMatrices, &Profiler::measureConvolutions,
                       &Profiler::measureAttention, &Profiler::measureOperators})
    if (Error error = (this->*measure)(*rates))
      return error;
  if (Error error = measureHandover(machine))
    return error;
  if (Error error = measureCollectives(machine))
    return error;
  const RateTable &products = rates->products[{ProductKind::Matrix, "float32"}];
  for (DeviceSpec &device : machine.devices) {
    device.flopsPerSecond = *llvm::max_element(products.allRates());
    device.memoryBytesPerSecond = rates->memory.allRates().back();
    device.rates = rates;
  }
  return Error::success();
}

llvm::Expected<Machine> profile(const ProfileOptions &options) {
  for (size_t index = 0; index < options.devices.size(); ++index)
    if (llvm::is_contained(llvm::ArrayRef(options.devices).take_front(index), options.devices[index]))
      return wrongUsage("--devices " + llvm::join(options.devices, ",") + ": " + options.devices[index] +
                        " is given twice; give each once");
  auto timer = KernelTimer::open(options.devices, {options.quick ? 0.0005 : 0.05});
  if (!timer)
    return timer.takeError();
  return runtime::catching([&]() -> llvm::Expected<Machine> {
    Machine machine;
    Profiler profiler(options, std::move(*timer));
    if (Error error = profiler.run(machine))
      return error;
    return machine;
  });
}

} // namespace cleave
