//===- JoinedMachineTest.cpp - One machine of several parts ---------------===//
#include "tools/driver/profile/JoinedMachine.h"
#include "partitioner/machine/MachineFile.h"
#include <gmock/gmock.h>

namespace cleave {

using testing::ElementsAre;

static constexpr Link kFast = {1e-5, 1e9}, kSlow = {1e-3, 1e7}, kSlower = {1e-3, 2e6};

namespace {
class JoinedMachineTest : public testing::Test {
protected:
  JoinedMachineTest() { parts.collectives = collectivesAt(3e6); }

  static CollectiveCosts collectivesAt(double rate) {
    CollectiveCosts costs;
    costs.measurementOf(CollectiveKind::AllReduce) = {1e-4, 2, RateTable({{64}}, {rate})};
    return costs;
  }
  /// A block of so many devices, which slow links tie to the others.
  void add(uint32_t devices, double speed = 1, Link link = kFast) {
    Machine &block = parts.blocks.emplace_back();
    auto rates = std::make_shared<KernelRates>();
    rates->gemms[{GemmKind::Matrix, "float32"}] =
        RateTable({{1}, {1, 8}, {8}, {8}}, {speed * 1e9, speed * 5e9});
    rates->operators["aten.gelu"] = RateTable({{64}}, {speed * 2e9});
    for (uint32_t index = 0; index < devices; ++index, ++count)
      block.devices.push_back(
          {"cpu:" + std::to_string(count), speed * 5e9, 1e10, 1e-6, 1 << 30, rates, count + 1});
    block.link = link;
    block.collectives = collectivesAt(8e8);
    for (uint32_t other = 0; other + 1 < parts.blocks.size(); ++other)
      parts.links[{other, uint32_t(parts.blocks.size() - 1)}] = kSlow;
  }
  /// What a file of it says.
  Machine joined() const {
    return llvm::cantFail(readMachineText(machineFileText(joinMachines(parts)), "joined"));
  }

  MachineParts parts;
  uint32_t count = 0;
};
} // namespace

TEST(HostBlocks, AreRanksThatFollowEachOther) {
  EXPECT_THAT(groupByHost({"a", "a", "b", "b"}), ElementsAre(HostRanks{0, 2}, HostRanks{2, 2}));
  EXPECT_THAT(groupByHost({"a", "b", "a"}), ElementsAre(HostRanks{0, 1}, HostRanks{1, 1}, HostRanks{2, 1}));
  EXPECT_THAT(groupByHost({"a"}), ElementsAre(HostRanks{0, 1}));
}

TEST_F(JoinedMachineTest, OneBlockIsTheMachine) {
  add(2);
  const Machine machine = joined();
  EXPECT_FALSE(machine.nodes);
  EXPECT_EQ(machine.link, kFast);
  EXPECT_EQ(machine.collectives.bytesPerSecond(CollectiveKind::AllReduce, 64), 8e8);
  EXPECT_TRUE(machine.linkOverrides.empty());
}

TEST_F(JoinedMachineTest, HostsOfOneSizeAreNodes) {
  add(2);
  add(2);
  const Machine machine = joined();
  EXPECT_EQ(machine.nodes->devices, 2u);
  EXPECT_EQ(machine.nodes->link, kSlow);
  EXPECT_EQ(machine.link, kFast);
  EXPECT_EQ(machine.collectivesAmong(2).bytesPerSecond(CollectiveKind::AllReduce, 64), 8e8);
  EXPECT_EQ(machine.collectivesAmong(4).bytesPerSecond(CollectiveKind::AllReduce, 64), 3e6);
  EXPECT_TRUE(machine.linkOverrides.empty());
  std::vector<std::string> names;
  std::vector<uint32_t> threads;
  for (const DeviceSpec &device : machine.devices) {
    names.push_back(device.name);
    threads.push_back(device.threads);
  }
  EXPECT_THAT(names, ElementsAre("cpu:0", "cpu:1", "cpu:2", "cpu:3"));
  EXPECT_THAT(threads, ElementsAre(1, 2, 3, 4));
}

TEST_F(JoinedMachineTest, HostsOfUnlikeSizeHaveLinksOfPairs) {
  add(2);
  add(1);
  const Machine machine = joined();
  EXPECT_FALSE(machine.nodes);
  EXPECT_EQ(machine.link, kFast);
  EXPECT_EQ(machine.linkOverrides.size(), 4u);
  EXPECT_EQ(machine.linkOverrides.at({2, 1}), kSlow);
  EXPECT_EQ(machine.collectives.bytesPerSecond(CollectiveKind::AllReduce, 64), 8e8);
}

TEST_F(JoinedMachineTest, HostsOfOneDeviceAreLinkedByTheLinkOfAll) {
  for (int host = 0; host < 3; ++host)
    add(1);
  parts.links[{1, 2}] = kSlower;
  const Machine machine = joined();
  EXPECT_FALSE(machine.nodes);
  EXPECT_EQ(machine.link, kSlow);
  EXPECT_EQ(machine.collectives.bytesPerSecond(CollectiveKind::AllReduce, 64), 3e6);
  EXPECT_EQ(machine.linkOverrides.size(), 2u);
  EXPECT_EQ(machine.linkOverrides.at({1, 2}), kSlower);
}

TEST_F(JoinedMachineTest, LinksWithinAHostMayDifferToo) {
  add(2);
  add(2);
  add(2, /*speed=*/1, kSlower);
  const Machine machine = joined();
  EXPECT_EQ(machine.link, kFast);
  EXPECT_EQ(machine.linkOverrides.size(), 2u);
  EXPECT_EQ(machine.linkOverrides.at({4, 5}), kSlower);
}

/// No two measurements are the same.
TEST_F(JoinedMachineTest, DevicesThatAreAlikeAreOneKind) {
  add(2);
  add(2, /*speed=*/1.1);
  const Machine machine = joined();
  for (const DeviceSpec &device : machine.devices)
    EXPECT_TRUE(device.computesLike(machine.devices[0]));
  EXPECT_EQ(machineFileText(machine).find("kinds"), std::string::npos);
}

TEST_F(JoinedMachineTest, DevicesThatDifferAreKinds) {
  add(2);
  add(2, /*speed=*/0.5);
  add(2, /*speed=*/0.49);
  const Machine machine = joined();
  EXPECT_TRUE(machine.devices[1].computesLike(machine.devices[0]));
  EXPECT_FALSE(machine.devices[2].computesLike(machine.devices[0]));
  EXPECT_TRUE(machine.devices[5].computesLike(machine.devices[2]));
  EXPECT_EQ(machine.devices[4].flopsPerSecond, 2.5e9);
}

} // namespace cleave
