//===- PipelineSearchTest.cpp - All pipelines of one function -------------===//
#include "partitioner/PipelineSearch.h"
#include "ParseModule.h"
#include "partitioner/StageStarts.h"
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
    const std::string weight = "tensor<" + std::to_string(widths[i + 1]) + "x" + std::to_string(widths[i]) + "xf32>";
    body += "  %w" + n + " = cleave.param \"" + n + ".weight\" {role = \"parameter\"} : " + weight + "\n";
    body += "  %y" + n + " = aten.linear(" + value + ", %w" + n + ", %none) : (" + batched(widths[i]) + ", " + weight +
            ", none) -> " + batched(widths[i + 1]) + " loc(\"" + n + "\")\n";
    value = "%y" + n;
  }
  return "func.func @f(%x: " + batched(widths.front()) + ") -> " + batched(widths.back()) +
         " attributes {cleave.symbols = {batch = 8 : i64}} {\n  %none = cleave.constant(unit) : none\n" + body + "  return " +
         value + " : " + batched(widths.back()) + "\n}\n";
}

static Machine machineOf(double latency) {
  Machine machine = Machine::cpu(4);
  machine.link.latencySeconds = latency;
  return machine;
}

static std::vector<Estimate> search(const std::vector<int64_t> &widths, double latency, double *best,
                                    std::vector<std::string> stageBefore = {},
                                    std::function<bool(const Estimate &, double)> goesOn = nullptr) {
  auto module = parseModule(layers(widths));
  EXPECT_TRUE(module);
  PipelineSearchRequest request;
  request.machine = machineOf(latency);
  request.pipelines = {{1, 1}, {2, 1}, {4, 1}};
  request.stagesOfRank = {1, 2};
  request.batch = "batch";
  request.stageBefore = std::move(stageBefore);
  request.best = best;
  request.goesOn = std::move(goesOn);
  return searchPipelines(*module->getOps<mlir::func::FuncOp>().begin(), request);
}

static const Estimate &fastest(const std::vector<Estimate> &estimates) {
  auto keyOf = [](const Estimate &one) { return std::tuple(!one.obstacle.empty(), one.isBound, one.seconds); };
  return *llvm::min_element(estimates, [&](const Estimate &a, const Estimate &b) { return keyOf(a) < keyOf(b); });
}

static const std::vector<int64_t> kEqual(9, 256), kUnequal{512, 64, 1024, 32, 700, 700, 8, 300, 900};

TEST(PipelineSearch, BoundsAreNeverAboveWhatACutTakes) {
  for (const auto &widths : {kEqual, kUnequal})
    for (double latency : {0.0, 1e-5, 1e-3}) {
      double best = std::numeric_limits<double>::infinity();
      const std::vector<Estimate> all = search(widths, latency, nullptr), pruned = search(widths, latency, &best);
      // Four numbers of micro-batches, of one rank with one stage and of two and four ranks with one or two each.
      ASSERT_EQ(all.size(), 4u * 5);
      ASSERT_EQ(all.size(), pruned.size());
      for (auto [whole, estimate] : llvm::zip(all, pruned)) {
        EXPECT_EQ(whole.configuration, estimate.configuration);
        EXPECT_FALSE(whole.isBound);
        EXPECT_TRUE(whole.obstacle.empty()) << whole.obstacle;
        if (estimate.isBound)
          EXPECT_LE(estimate.seconds, whole.seconds * (1 + 1e-9));
        else
          EXPECT_EQ(estimate.seconds, whole.seconds);
      }
      EXPECT_TRUE(llvm::any_of(pruned, [](const Estimate &one) { return one.isBound; }));
      EXPECT_EQ(fastest(all).configuration, fastest(pruned).configuration);
      EXPECT_EQ(fastest(all).seconds, best);
    }
}

TEST(PipelineSearch, StartsThatAreNoModulesAreObstacles) {
  for (const Estimate &one : search(kEqual, 0, nullptr, {"9"}))
    EXPECT_NE(one.obstacle.find("--stage-before 9: no module of this path does work; the model has 0, 1, 2"), std::string::npos)
        << one.obstacle;
}

TEST(PipelineSearch, EndsWhereItIsTold) {
  const std::vector<Estimate> all = search(kUnequal, 1e-5, nullptr);
  for (size_t most : {size_t(1), size_t(3), all.size() - 1, all.size()}) {
    std::vector<double> shares;
    auto goesOn = [&](const Estimate &estimate, double share) {
      EXPECT_EQ(estimate.configuration, all[shares.size()].configuration);
      shares.push_back(share);
      return shares.size() < most;
    };
    const std::vector<Estimate> some = search(kUnequal, 1e-5, nullptr, {}, goesOn);
    ASSERT_EQ(some.size(), all.size());
    ASSERT_EQ(shares.size(), most);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(some[i].configuration, all[i].configuration);
      EXPECT_EQ(some[i].seconds, i < most ? all[i].seconds : 0);
      EXPECT_EQ(some[i].obstacle, i < most ? "" : kNotWeighed);
    }
    for (size_t i = 0; i < most; ++i)
      EXPECT_DOUBLE_EQ(shares[i], double(i + 1) / all.size());
  }
}

TEST(StageStarts, AreTheFirstNodesOfModules) {
  auto module = parseModule(layers(kEqual));
  ASSERT_TRUE(module);
  const ModelGraph model = buildModelGraph(*module->getOps<mlir::func::FuncOp>().begin(), Machine::cpu(1), 2);
  auto starts = stageStartsOf(model, {"5", "0", "2", "5"});
  ASSERT_TRUE(bool(starts));
  // In order, once each; the model begins with 0 anyway.
  EXPECT_EQ(*starts, (std::vector<uint32_t>{2, 5}));
}
