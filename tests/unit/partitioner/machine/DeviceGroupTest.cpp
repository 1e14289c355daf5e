//===- DeviceGroupTest.cpp - Devices and links that are not alike ---------------===//
#include "partitioner/machine/DeviceGroup.h"

#include "gtest/gtest.h"

using namespace cleave;

/// `count` devices alike but for their flops, each the so manieth part of a CPU's.
static Machine machineOf(const std::vector<double> &slownesses) {
  Machine machine = Machine::cpu(slownesses.size());
  for (size_t device = 0; device < slownesses.size(); ++device)
    machine.devices[device].flopsPerSecond /= slownesses[device];
  return machine;
}

static void link(Machine &machine, uint32_t a, uint32_t b, Link link) {
  machine.linkOverrides[{a, b}] = machine.linkOverrides[{b, a}] = link;
}

TEST(DeviceGroup, HasEachKindOfDeviceOnce) {
  const PipelineDeviceGroups groups(machineOf({1, 1, 3, 1, 3, 3}), 6, 1, 1);
  ASSERT_EQ(groups.kinds.size(), 2u);
  std::vector<uint32_t> kinds;
  for (auto &rank : groups.ranks)
    kinds.push_back(rank.kind);
  EXPECT_EQ(kinds, (std::vector<uint32_t>{0, 0, 1, 0, 1, 1}));
  EXPECT_EQ(PipelineDeviceGroups(Machine::cpu(6), 3, 2, 2).kinds.size(), 1u);
}

/// Tensor groups of two: of fast ones, of both, of both the other way round, of slow ones.
TEST(DeviceGroup, IsOfAllDevicesOfATensorGroup) {
  const PipelineDeviceGroups groups(machineOf({1, 1, 1, 3, 3, 1, 3, 3}), 4, 2, 2);
  EXPECT_EQ(groups.kinds[groups.ranks[0].kind].devices.size(), 1u);
  EXPECT_EQ(groups.kinds[groups.ranks[1].kind].devices.size(), 2u);
  EXPECT_EQ(groups.kinds[groups.ranks[2].kind].devices.size(), 2u);
  EXPECT_EQ(groups.kinds[groups.ranks[3].kind].devices.front().flopsPerSecond,
            Machine::cpu(1).devices[0].flopsPerSecond / 3);
}

TEST(DeviceGroup, HasTheMemoryOfItsLeastDevice) {
  Machine machine = Machine::cpu(6);
  machine.devices[1].memoryBytes = 50;
  machine.devices[4].memoryBytes = 20;
  machine.devices[5].memoryBytes = 10;
  const PipelineDeviceGroups groups(machine, 3, 2, 2);
  EXPECT_EQ(groups.kinds.size(), 1u);
  EXPECT_EQ(groups.memoryOfRanks(), (std::vector<std::optional<int64_t>>{50, std::nullopt, 10}));
  const auto shortage = shortageOf({70, 90, 60}, groups.memoryOfRanks());
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->rank, 0u);
  EXPECT_EQ(shortage->describe(), "takes 70 bytes on a device that has 50");
  EXPECT_FALSE(shortageOf({50, 90, 10}, groups.memoryOfRanks()));
}

TEST(DeviceGroup, LinksStagesByTheirDevices) {
  Machine machine = Machine::cpu(4);
  const Link slow{1, 1e3};
  link(machine, 1, 2, slow);
  const auto stages = PipelineDeviceGroups(machine, 4, 1, 1).stageDevices(4);
  EXPECT_EQ(stages[1].link, machine.link);
  EXPECT_EQ(stages[2].link, slow);
  EXPECT_EQ(stages[3].link, machine.link);
  // Interleaved over two ranks, of which the first is devices 0 and 1, the second 2 and 3: devices 1 and 2
  // have not the same position.
  EXPECT_EQ(PipelineDeviceGroups(machine, 2, 2, 2).stageDevices(4)[1].link, machine.link);
  link(machine, 1, 3, slow);
  const PipelineDeviceGroups groups(machine, 2, 2, 2);
  for (uint32_t stage : {1, 2, 3})
    EXPECT_EQ(groups.stageDevices(4)[stage].link, slow) << stage;
  EXPECT_EQ(linkOverridesAmong(machine, 4, 2).size(), 2u);
  EXPECT_EQ(linkOverridesAmong(machine, 3, 2).size(), 0u);
}

/// A fast link between two positions leaves the other's.
TEST(DeviceGroup, SendsAtThePaceOfTheSlowestPosition) {
  Machine machine = Machine::cpu(4);
  link(machine, 0, 2, {0, 1e15});
  EXPECT_EQ(PipelineDeviceGroups(machine, 2, 2, 2).linkBetween(0, 1), machine.link);
  link(machine, 1, 3, {0, 1e14});
  EXPECT_EQ(PipelineDeviceGroups(machine, 2, 2, 2).linkBetween(0, 1), (Link{0, 1e14}));
}

TEST(DeviceGroup, CollectsAtThePaceOfTheSlowestLink) {
  Machine machine = Machine::cpu(4);
  auto seconds = [&](uint32_t first, uint32_t count, uint32_t ranks) {
    return DeviceGroup::of(machine, first, count, ranks)
        .collectives.seconds(CollectiveKind::AllReduce, 1e6, ranks);
  };
  const double usual = seconds(0, 2, 2);
  const Link slow{1, 1e3}, fast{0, 1e15};
  link(machine, 2, 3, slow);
  EXPECT_EQ(seconds(0, 2, 2), usual);
  EXPECT_DOUBLE_EQ(seconds(2, 2, 2), CollectiveCosts(slow).seconds(CollectiveKind::AllReduce, 1e6, 2));
  // Of two groups the slower.
  EXPECT_DOUBLE_EQ(seconds(0, 4, 2), CollectiveCosts(slow).seconds(CollectiveKind::AllReduce, 1e6, 2));
  EXPECT_DOUBLE_EQ(seconds(0, 4, 4), CollectiveCosts(slow).seconds(CollectiveKind::AllReduce, 1e6, 4));
  link(machine, 0, 1, fast);
  EXPECT_LT(seconds(0, 2, 2), usual);
  // Not all links of the group are fast.
  Machine other = Machine::cpu(3);
  link(other, 0, 1, fast);
  EXPECT_EQ(DeviceGroup::of(other, 0, 3, 3).collectives.seconds(CollectiveKind::AllReduce, 1e6, 3),
            other.collectives.seconds(CollectiveKind::AllReduce, 1e6, 3));
}

/// Groups of two side by side: those of one position hold the same.
TEST(DeviceGroup, SumsOverLinksOfGroupsOfDataAlone) {
  Machine machine = Machine::cpu(8);
  auto seconds = [&](uint32_t first) {
    return dataParallelCollectivesOf(machine, first, 4, 2).seconds(CollectiveKind::AllReduce, 1e6, 2);
  };
  const double usual = seconds(0);
  const Link slow{1, 1e3};
  for (auto [from, to] : {std::pair(0, 1), {0, 3}, {1, 2}, {2, 3}, {0, 4}, {3, 7}})
    link(machine, from, to, slow);
  EXPECT_EQ(seconds(0), usual);
  EXPECT_EQ(dataParallelCollectivesOf(machine, 0, 2, 2), machine.collectives);
  link(machine, 5, 7, slow);
  EXPECT_EQ(seconds(0), usual);
  EXPECT_DOUBLE_EQ(seconds(4), CollectiveCosts(slow).seconds(CollectiveKind::AllReduce, 1e6, 2));
}

/// What says nothing new of a link leaves what was measured.
TEST(DeviceGroup, TakesLinksAsAllOthersForThose) {
  Machine machine = Machine::cpu(4);
  machine.nodes = Machine::Nodes{2, {1e-3, 1e9}, Link{1e-3, 1e9}};
  machine.collectives.measurementOf(CollectiveKind::AllReduce) =
      CollectiveCosts::Measured{/*latencySeconds=*/1e-2, /*ranks=*/2, {}};
  const Machine plain = machine;
  for (auto [from, to] : {std::pair(0, 1), {2, 3}})
    link(machine, from, to, machine.link);
  for (auto [from, to] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}})
    link(machine, from, to, machine.nodes->link);
  EXPECT_EQ(DeviceGroup::of(machine, 0, 4, 2), DeviceGroup::of(plain, 0, 4, 2));
  EXPECT_EQ(DeviceGroup::of(machine, 2, 2, 2).collectives, plain.collectives);
  EXPECT_EQ(dataParallelCollectivesOf(machine, 0, 4, 2), plain.nodes->collectives);
  EXPECT_TRUE(PipelineDeviceGroups(machine, 2, 2, 2).linkOverrides.empty());
  EXPECT_TRUE(PipelineDeviceGroups(machine, 2, 1, 1).linkOverrides.empty());
  // A pipeline over both nodes would have the link between them.
  EXPECT_EQ(PipelineDeviceGroups(machine, 4, 1, 1).linkBetween(0, 1), machine.link);
}
