//===- PipelineSearchTest.cpp - All pipelines of one function -------------===//
#include "partitioner/search/PipelineSearch.h"
#include "partitioner/cutting/StageStarts.h"
#include "tests/unit/partitioner/ParseModule.h"
#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>
#include <limits>

using namespace cleave;

/// Eight samples through linear layers `0`, `1`, … of these widths.
static std::string layers(const std::vector<int64_t> &widths) {
  auto batched = [](int64_t width) {
    const std::string size = std::to_string(width);
    return "tensor<?x" + size + "xf32, #cleave.layout<dims = [\"batch\", \"" + size + "\"]>>";
  };
  std::string body, value = "%x";
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string weight =
        "tensor<" + std::to_string(widths[i + 1]) + "x" + std::to_string(widths[i]) + "xf32>";
    body += "  %w" + n + " = cleave.param \"" + n + ".weight\" {role = \"parameter\"} : " + weight + "\n";
    body += "  %y" + n + " = aten.linear(" + value + ", %w" + n + ", %none) : (" + batched(widths[i]) + ", " +
            weight + ", none) -> " + batched(widths[i + 1]) + " loc(\"" + n + "\")\n";
    value = "%y" + n;
  }
  return "func.func @f(%x: " + batched(widths.front()) + ") -> " + batched(widths.back()) +
         " attributes {cleave.symbols = {batch = 8 : i64}} {\n  %none = cleave.constant(unit) : none\n" +
         body + "  return " + value + " : " + batched(widths.back()) + "\n}\n";
}

static Machine machineOf(double latency) {
  Machine machine = Machine::cpu(4);
  machine.link.latencySeconds = latency;
  return machine;
}

/// The second device is slow at calls, the third at bytes, and the last two hear little of each other.
static Machine heterogeneousMachine() {
  Machine machine = machineOf(1e-5);
  machine.devices[1].dispatchSeconds *= 4;
  machine.devices[2].memoryBytesPerSecond /= 5;
  machine.linkOverrides[{2, 3}] = machine.linkOverrides[{3, 2}] = {1e-4, 1e6};
  return machine;
}

static std::vector<Estimate> search(const std::vector<int64_t> &widths, const Machine &machine, double *best,
                                    std::vector<std::string> stageBefore = {},
                                    std::function<bool(const Estimate &, double)> goesOn = nullptr) {
  auto module = parseModule(layers(widths));
  EXPECT_TRUE(module);
  PipelineSearchRequest request;
  request.machine = machine;
  request.pipelines = {{1, 1}, {2, 1}, {4, 1}};
  request.stagesPerRank = {1, 2};
  request.batch = "batch";
  request.stageBefore = std::move(stageBefore);
  request.best = best;
  request.onEstimate = std::move(goesOn);
  return searchPipelines(*module->getOps<mlir::func::FuncOp>().begin(), request);
}

static const Estimate &fastest(const std::vector<Estimate> &estimates) {
  auto keyOf = [](const Estimate &one) {
    return std::tuple(!one.obstacle.empty(), one.isLowerBound, one.seconds);
  };
  return *llvm::min_element(estimates,
                            [&](const Estimate &a, const Estimate &b) { return keyOf(a) < keyOf(b); });
}

static const std::vector<int64_t> kEqual(9, 256), kUnequal{512, 64, 1024, 32, 700, 700, 8, 300, 900};

TEST(PipelineSearch, BoundsAreNeverAboveWhatACutTakes) {
  for (const auto &widths : {kEqual, kUnequal})
    for (const Machine &machine : {machineOf(0), machineOf(1e-5), machineOf(1e-3), heterogeneousMachine()}) {
      double best = std::numeric_limits<double>::infinity();
      const std::vector<Estimate> all = search(widths, machine, nullptr),
                                  pruned = search(widths, machine, &best);
      // Four numbers of micro-batches, of one rank with one stage and of two and four ranks with one or two
      // each.
      ASSERT_EQ(all.size(), 4u * 5);
      ASSERT_EQ(all.size(), pruned.size());
      for (auto [whole, estimate] : llvm::zip(all, pruned)) {
        EXPECT_EQ(whole.configuration, estimate.configuration);
        EXPECT_FALSE(whole.isLowerBound);
        EXPECT_TRUE(whole.obstacle.empty()) << whole.obstacle;
        if (estimate.isLowerBound)
          EXPECT_LE(estimate.seconds, whole.seconds * (1 + 1e-9));
        else
          EXPECT_EQ(estimate.seconds, whole.seconds);
      }
      EXPECT_TRUE(llvm::any_of(pruned, [](const Estimate &one) { return one.isLowerBound; }));
      EXPECT_EQ(fastest(all).configuration, fastest(pruned).configuration);
      EXPECT_EQ(fastest(all).seconds, best);
    }
}

TEST(PipelineSearch, StartsThatAreNoModulesAreObstacles) {
  for (const Estimate &one : search(kEqual, machineOf(0), nullptr, {"9"}))
    EXPECT_NE(one.obstacle.find("--stage-before 9: no module of this path does work; the model has 0, 1, 2"),
              std::string::npos)
        << one.obstacle;
}

TEST(PipelineSearch, EndsWhereItIsTold) {
  const std::vector<Estimate> all = search(kUnequal, machineOf(1e-5), nullptr);
  for (size_t most : {size_t(1), size_t(3), all.size() - 1, all.size()}) {
    std::vector<double> shares;
    auto goesOn = [&](const Estimate &estimate, double share) {
      EXPECT_EQ(estimate.configuration, all[shares.size()].configuration);
      shares.push_back(share);
      return shares.size() < most;
    };
    const std::vector<Estimate> some = search(kUnequal, machineOf(1e-5), nullptr, {}, goesOn);
    ASSERT_EQ(some.size(), all.size());
    ASSERT_EQ(shares.size(), most);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(some[i].configuration, all[i].configuration);
      EXPECT_EQ(some[i].seconds, i < most ? all[i].seconds : 0);
      EXPECT_EQ(some[i].obstacle, i < most ? "" : kNotEvaluated);
    }
    for (size_t i = 0; i < most; ++i)
      EXPECT_DOUBLE_EQ(shares[i], double(i + 1) / all.size());
  }
}

/// What a pipeline of two stages takes on these devices.
static PipelineForecast forecastOn(const Machine &machine) {
  auto module = parseModule(layers(kEqual));
  PipelineSearchRequest request;
  request.machine = machine;
  request.batch = "batch";
  Configuration configuration;
  configuration.pipelineParallelSize = 2;
  configuration.microbatches = 2;
  Estimate estimate{configuration};
  estimate.function = *module->getOps<mlir::func::FuncOp>().begin();
  return llvm::cantFail(forecastPipeline(request, estimate));
}

TEST(PipelineSearch, GivesASlowDeviceLess) {
  Machine machine = machineOf(0);
  DeviceSpec &slow = machine.devices[1];
  slow.flopsPerSecond /= 3;
  slow.memoryBytesPerSecond /= 3;
  slow.dispatchSeconds *= 3;
  // Of eight layers six and two: on the first device the time of six, on the second of two, three times.
  const PipelineForecast found = forecastOn(machine);
  EXPECT_NEAR(found.costs.stages[0].forward, found.costs.stages[1].forward, 1e-9);
  EXPECT_EQ(found.stateBytes[0], 3 * found.stateBytes[1]);
}

TEST(PipelineSearch, SendsOverTheLinkBetweenTheDevices) {
  const double usual = forecastOn(machineOf(0)).seconds;
  Machine machine = machineOf(0);
  machine.linkOverrides[{2, 3}] = machine.linkOverrides[{3, 2}] = {1, 1e9};
  EXPECT_EQ(forecastOn(machine).seconds, usual);
  machine.linkOverrides[{0, 1}] = machine.linkOverrides[{1, 0}] = {1, 1e9};
  EXPECT_GT(forecastOn(machine).seconds, 2);
}

/// Weights of eight layers of 256 KiB; the last device has room for one.
TEST(PipelineSearch, KeepsEachDeviceWithinItsMemory) {
  Machine machine = machineOf(0);
  machine.devices[1].memoryBytes = 300 << 10;
  const PipelineForecast found = forecastOn(machine);
  EXPECT_EQ(found.stateBytes, (std::vector<int64_t>{7 * 256 << 10, 256 << 10}));
}

/// Whatever was searched for before, with limits that are alike or not.
TEST(PipelineSearch, RemembersForOtherMemory) {
  auto module = parseModule(layers(kUnequal));
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  PipelineCache known;
  PipelineSearchRequest request;
  request.pipelines = {{1, 1}, {2, 1}, {4, 1}};
  request.stagesPerRank = {1, 2};
  request.batch = "batch";
  constexpr int64_t kLarge = 8 << 20, kMiddle = 4 << 20, kSmall = 2 << 20;
  for (const std::vector<int64_t> &memory : {std::vector<int64_t>{kLarge},
                                             {kLarge, kSmall},
                                             {kMiddle},
                                             {kSmall, kLarge, kLarge, kMiddle},
                                             {kLarge, kSmall}}) {
    request.machine = heterogeneousMachine();
    for (auto [index, device] : llvm::enumerate(request.machine.devices))
      device.memoryBytes = memory[std::min(index, memory.size() - 1)];
    request.cache = nullptr;
    const std::vector<Estimate> fresh = searchPipelines(function, request);
    request.cache = &known;
    const std::vector<Estimate> again = searchPipelines(function, request);
    ASSERT_EQ(fresh.size(), again.size());
    for (auto [one, other] : llvm::zip(fresh, again)) {
      EXPECT_EQ(one.configuration, other.configuration);
      EXPECT_EQ(one.seconds, other.seconds);
      EXPECT_EQ(one.peakBytes, other.peakBytes);
      EXPECT_EQ(one.obstacle, other.obstacle);
    }
  }
}

TEST(StageStarts, AreTheFirstNodesOfModules) {
  auto module = parseModule(layers(kEqual));
  ASSERT_TRUE(module);
  const ModelGraph model = buildModelGraph(*module->getOps<mlir::func::FuncOp>().begin(),
                                           DeviceGroup::of(Machine::cpu(1), 0, 1, 1), 2);
  auto starts = stageStartsOf(model, {"5", "0", "2", "5"});
  ASSERT_TRUE(bool(starts));
  // In order, once each; the model begins with 0 anyway.
  EXPECT_EQ(*starts, (std::vector<uint32_t>{2, 5}));
}
