//===- MachineTest.cpp - Presets, collectives and rates -------------------===//
#include "partitioner/machine/Machine.h"

#include "gtest/gtest.h"

using namespace cleave;

static std::string messageOf(llvm::StringRef preset) {
  llvm::Expected<Machine> machine = Machine::load(preset);
  return machine ? "no error" : llvm::toString(machine.takeError());
}

TEST(Machine, HasAPresetForCpuThreads) {
  const Machine machine = llvm::cantFail(Machine::load("cpu:3"));
  EXPECT_EQ(machine.devices, Machine::cpu(3).devices);
  ASSERT_EQ(machine.devices.size(), 3u);
  EXPECT_EQ(machine.devices[2].name, "cpu:2");
  EXPECT_GT(machine.devices[2].flopsPerSecond, 0);
  EXPECT_GT(machine.link.bytesPerSecond, 0);
  EXPECT_FALSE(machine.devices[2].memoryBytes);
  EXPECT_EQ(llvm::cantFail(Machine::load("cpu:1024")).devices.size(), 1024u);
}

TEST(Machine, HasPresetsForNodesOfGpus) {
  const Machine node = llvm::cantFail(Machine::load("a100-80g")),
                many = llvm::cantFail(Machine::load("a100-80g:16"));
  ASSERT_EQ(node.devices.size(), 8u);
  ASSERT_EQ(many.devices.size(), 16u);
  EXPECT_EQ(many.devices[15].name, "cuda:15");
  EXPECT_EQ(node.devices[0].memoryBytes, 80000000000);
  EXPECT_EQ(node.devices[0].flopsPerSecond, 19.5e12);
  EXPECT_EQ(node.devices[0].rates->gemms.at({GemmKind::Matrix, "bfloat16"}).at({1, 2, 3, 4}), 312e12);
  // Within a node, and beyond it.
  EXPECT_EQ(many.linkAmong(8).bytesPerSecond, 300e9);
  EXPECT_EQ(many.linkAmong(9).bytesPerSecond, 25e9);
  EXPECT_LT(many.collectivesAmong(8).seconds(CollectiveKind::AllReduce, 1e9, 8),
            many.collectivesAmong(16).seconds(CollectiveKind::AllReduce, 1e9, 16));
  for (const char *name : {"p3.16xlarge", "h100", "h200"})
    EXPECT_EQ(llvm::cantFail(Machine::load(name)).devices.size(), 8u) << name;
}

/// Groups of two and nodes of three: the second group is on two nodes.
TEST(Machine, PricesCollectivesByTheGroupOverTwoNodes) {
  Machine machine = Machine::cpu(6);
  machine.nodes = {3, {/*latencySeconds=*/1, /*bytesPerSecond=*/1e9}};
  EXPECT_GT(machine.collectivesAmong(2).seconds(CollectiveKind::AllReduce, 8, 2), 1);
  EXPECT_LT(machine.collectivesAmong(3).seconds(CollectiveKind::AllReduce, 8, 3), 1);
  EXPECT_GT(machine.collectivesAmong(4).seconds(CollectiveKind::AllReduce, 8, 4), 1);
}

/// Thakur et al. 2005: p-1 steps, twice that for a sum that all get.
TEST(CollectiveCosts, CountEveryStepOfTheRing) {
  const CollectiveCosts costs(Link{/*latencySeconds=*/1, /*bytesPerSecond=*/1e9});
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::AllReduce, 8e9, 4), 2 * 3 + 2 * 8 * 3 / 4.0);
  for (CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    EXPECT_DOUBLE_EQ(costs.seconds(kind, 8e9, 4), 3 + 8 * 3 / 4.0);
  // Each rank has a quarter, of which it keeps a quarter.
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::AllToAll, 8e9, 4), 3 + 2 * 3 / 4.0);
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::Broadcast, 8e9, 4), 3 + 8);
}

TEST(CollectiveCosts, KnowForHowManyRanksTheyWereMeasured) {
  CollectiveCosts costs;
  costs.measurementOf(CollectiveKind::AllReduce) = {/*latencySeconds=*/6, /*ranks=*/4, RateTable(1e9)};
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::AllReduce, 0, 4), 6);
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::AllReduce, 0, 2), 2);
  EXPECT_DOUBLE_EQ(costs.seconds(CollectiveKind::AllReduce, 8e9, 8), 14 + 14);
}

TEST(RateTable, CoversSizesFromItsLeastOn) {
  RateTable table({{8, 64}}, {1e9, 4e9});
  EXPECT_FALSE(table.covers({7}));
  EXPECT_TRUE(table.covers({8}));
  EXPECT_TRUE(table.covers({1000}));
}

TEST(Machine, NamesTheNearestPreset) {
  const std::string after =
      ": no such preset or file; presets are cpu:N, p3.16xlarge, a100-80g, h100, h200, of which "
      "NAME:N are N devices, 1 to 1024; the nearest is ";
  for (auto [preset, nearest] : {std::pair("gpu:4", "cpu:4"),
                                 {"cpu:0", "cpu:1"},
                                 {"cpu:1025", "cpu:1024"},
                                 {"cpu:99999999999999999999", "cpu:1024"},
                                 {"cpu:-1", "cpu:1"},
                                 {"cpu", "cpu:1"},
                                 {"", "cpu:1"},
                                 {"/none/such.json", "cpu:1"},
                                 {"a100", "a100-80g"},
                                 {"a100:4", "a100-80g:4"},
                                 {"h20", "h200"},
                                 {"h100:0", "h100:1"},
                                 {"h100-80g:16", "h100:16"},
                                 {"p3.16xlage", "p3.16xlarge"}})
    EXPECT_EQ(messageOf(preset), "machine '" + std::string(preset) + "'" + after + nearest +
                                     "; give one of these, or a file as cleave profile writes it");
}
