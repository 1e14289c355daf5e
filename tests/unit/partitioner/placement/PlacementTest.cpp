//===- PlacementTest.cpp - Exact placement against brute force ------------===//
#include "partitioner/placement/Placement.h"

#include "partitioner/cutting/DownsetSearch.h"
#include "partitioner/placement/ColourContraction.h"
#include "tests/unit/partitioner/RandomGraph.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <optional>

using namespace cleave;

namespace {

/// What Placement.h says about one assignment of nodes to devices, written down again without regard to
/// speed. Devices are numbered, accelerators first.
class Evaluator {
public:
  explicit Evaluator(const PlacementProblem &problem);
  /// Nothing where the assignment breaks a rule.
  std::optional<std::vector<double>> loads(const std::vector<uint32_t> &deviceOf) const;
  double maxLoad(const std::vector<uint32_t> &deviceOf) const;

private:
  bool isContiguous(const std::vector<uint32_t> &deviceOf) const;

  const PlacementProblem &problem;
  const uint32_t devices;
  /// What must not come later.
  std::vector<PlacementProblem::Edge> precedence;
};

} // namespace

static constexpr double kNever = std::numeric_limits<double>::infinity();

Evaluator::Evaluator(const PlacementProblem &problem)
    : problem(problem), devices(problem.accelerators + problem.cpus) {
  auto isForward = [&](uint32_t colour) {
    return std::any_of(problem.nodes.begin(), problem.nodes.end(),
                       [&](auto &node) { return node.colour == colour && !node.isBackward; });
  };
  for (auto [source, target] : problem.edges) {
    const auto &from = problem.nodes[source], &to = problem.nodes[target];
    if (!from.isBackward && !to.isBackward)
      precedence.push_back({source, target});
    if (from.isBackward && to.isBackward && !(isForward(from.colour) && isForward(to.colour)))
      precedence.push_back({target, source});
  }
}

/// Whether devices can be put in an order that every edge follows.
bool Evaluator::isContiguous(const std::vector<uint32_t> &deviceOf) const {
  std::vector<std::vector<char>> leads(devices, std::vector<char>(devices, 0));
  for (auto [source, target] : precedence)
    if (deviceOf[source] != deviceOf[target])
      leads[deviceOf[source]][deviceOf[target]] = 1;
  for (uint32_t middle = 0; middle < devices; ++middle)
    for (uint32_t from = 0; from < devices; ++from)
      for (uint32_t to = 0; to < devices; ++to)
        leads[from][to] |= leads[from][middle] & leads[middle][to];
  for (uint32_t device = 0; device < devices; ++device)
    if (leads[device][device])
      return false;
  return true;
}

std::optional<std::vector<double>> Evaluator::loads(const std::vector<uint32_t> &deviceOf) const {
  std::vector<double> loads(devices, 0), sizes(devices, 0);
  for (uint32_t node = 0; node < problem.nodes.size(); ++node) {
    const PlacementProblem::Node &own = problem.nodes[node];
    const uint32_t device = deviceOf[node];
    const bool isCpu = device >= problem.accelerators;
    for (uint32_t other = 0; other < node; ++other)
      if (problem.nodes[other].colour == own.colour && deviceOf[other] != device)
        return std::nullopt;
    if (!isCpu && (!own.isSupported || (sizes[device] += own.size) > problem.sizeLimit * (1 + 1e-9)))
      return std::nullopt;
    loads[device] += isCpu ? own.cpuLatency : own.acceleratorLatency;
    uint64_t receivers = 0;
    for (auto [source, target] : problem.edges)
      if (source == node && deviceOf[target] != device)
        receivers |= uint64_t(1) << deviceOf[target];
    for (uint32_t payer = 0; payer < problem.accelerators; ++payer)
      if ((receivers >> payer & 1) || (receivers && payer == device))
        loads[payer] += own.cost;
  }
  if (!isContiguous(deviceOf))
    return std::nullopt;
  return loads;
}

double Evaluator::maxLoad(const std::vector<uint32_t> &deviceOf) const {
  const auto all = loads(deviceOf);
  return all ? *std::max_element(all->begin(), all->end()) : kNever;
}

/// The least of all assignments of colours to devices.
static double bruteForce(const PlacementProblem &problem) {
  const Evaluator evaluator(problem);
  const uint32_t devices = problem.accelerators + problem.cpus;
  uint32_t colours = 0;
  for (const PlacementProblem::Node &node : problem.nodes)
    colours = std::max(colours, node.colour + 1);
  double best = kNever;
  std::vector<uint32_t> deviceOfColour(colours, 0), deviceOf(problem.nodes.size());
  for (;;) {
    for (uint32_t node = 0; node < deviceOf.size(); ++node)
      deviceOf[node] = deviceOfColour[problem.nodes[node].colour];
    best = std::min(best, evaluator.maxLoad(deviceOf));
    uint32_t digit = 0;
    while (digit < colours && ++deviceOfColour[digit] == devices)
      deviceOfColour[digit++] = 0;
    if (digit == colours)
      return best;
  }
}

/// Forward nodes, then backward ones, most of them mates of forward ones, as edges may go; free nodes, ties,
/// nodes that no accelerator takes, and limits that may not be met.
static PlacementProblem randomProblem(Dice &dice, uint32_t nodes, uint32_t devices) {
  PlacementProblem problem;
  const uint32_t forward = dice.below(2) ? nodes : (nodes + 1) / 2;
  const uint32_t density = 2 + dice.below(4);
  uint32_t colours = 0;
  for (uint32_t node = 0; node < nodes; ++node) {
    PlacementProblem::Node next;
    next.id = 100 - node;
    next.isBackward = node >= forward;
    next.acceleratorLatency = dice.below(4) ? dice.below(9) : 0;
    next.cpuLatency = next.acceleratorLatency * dice.below(5) + (dice.below(4) ? 0 : dice.below(3));
    next.cost = dice.below(3) ? dice.below(5) * 0.5 : 0;
    next.size = dice.below(4);
    next.isSupported = dice.below(12) != 0;
    const bool hasMate = node > 0 && (next.isBackward ? dice.below(4) != 0 : dice.below(6) == 0);
    next.colour = hasMate ? problem.nodes[dice.below(next.isBackward ? forward : node)].colour : colours++;
    problem.nodes.push_back(next);
  }
  for (uint32_t target = 0; target < nodes; ++target)
    for (uint32_t source = 0; source < target; ++source)
      if (dice.below(density) == 0)
        problem.edges.push_back({source, target});
  problem.cpus = dice.below(3) ? 0 : 1 + dice.below(2);
  problem.cpus = std::min(problem.cpus, devices);
  problem.accelerators = devices - problem.cpus;
  problem.sizeLimit = dice.below(2) ? 1000 : 2 + dice.below(2 * nodes);
  return problem;
}

static std::vector<uint32_t> assignment(const PlacementProblem &problem, const Placement &placement) {
  std::vector<uint32_t> deviceOf(problem.nodes.size(), UINT32_MAX);
  auto note = [&](const std::vector<DeviceLoad> &devices, uint32_t first) {
    for (uint32_t index = 0; index < devices.size(); ++index) {
      EXPECT_FALSE(devices[index].nodes.empty());
      for (uint32_t node : devices[index].nodes) {
        EXPECT_EQ(deviceOf[node], UINT32_MAX) << "a node is on one device";
        deviceOf[node] = first + index;
      }
    }
  };
  EXPECT_LE(placement.accelerators.size(), problem.accelerators);
  EXPECT_LE(placement.cpus.size(), problem.cpus);
  note(placement.accelerators, 0);
  note(placement.cpus, problem.accelerators);
  EXPECT_EQ(std::count(deviceOf.begin(), deviceOf.end(), UINT32_MAX), 0) << "every node is on a device";
  return deviceOf;
}

/// Rules are kept, and the loads are those of the definition.
static void expectSound(const PlacementProblem &problem, const Placement &placement) {
  const auto loads = Evaluator(problem).loads(assignment(problem, placement));
  ASSERT_TRUE(loads);
  for (uint32_t index = 0; index < placement.accelerators.size(); ++index)
    EXPECT_NEAR((*loads)[index], placement.accelerators[index].load, 1e-9);
  for (uint32_t index = 0; index < placement.cpus.size(); ++index)
    EXPECT_NEAR((*loads)[problem.accelerators + index], placement.cpus[index].load, 1e-9);
  EXPECT_NEAR(*std::max_element(loads->begin(), loads->end()), placement.maxLoad, 1e-9);
  EXPECT_LE(placement.lowerBound, placement.maxLoad);
}

TEST(Placement, IsTheBestOfAllOnRandomGraphs) {
  Dice dice(7);
  uint32_t feasible = 0;
  for (uint32_t round = 0; round < 1500; ++round) {
    SCOPED_TRACE(round);
    const uint32_t nodes = 1 + dice.below(12);
    uint32_t devices = 1 + dice.below(4);
    while (std::pow(devices, nodes) > 20000)
      --devices;
    const PlacementProblem problem = randomProblem(dice, nodes, devices);
    const double best = bruteForce(problem);
    auto placement = place(problem);
    ASSERT_EQ(bool(placement), best < kNever) << (placement ? "" : toString(placement.takeError()));
    if (!placement) {
      consumeError(placement.takeError());
      continue;
    }
    ++feasible;
    EXPECT_TRUE(placement->isExact);
    EXPECT_NEAR(placement->maxLoad, best, 1e-9);
    EXPECT_EQ(placement->lowerBound, placement->maxLoad);
    expectSound(problem, *placement);
  }
  EXPECT_GE(feasible, 1000u);
}

TEST(Placement, BoundsWhatItDoesNotProve) {
  Dice dice(8);
  for (uint32_t round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const PlacementProblem problem = randomProblem(dice, 2 + dice.below(8), 2);
    const double best = bruteForce(problem);
    for (const SearchLimits &limits :
         {SearchLimits{1, 1000}, SearchLimits{12, 1000}, SearchLimits{1000, 3}}) {
      auto placement = place(problem, limits);
      if (!placement) {
        // Linear orders may miss what fits.
        consumeError(placement.takeError());
        continue;
      }
      EXPECT_LE(placement->lowerBound, best + 1e-9);
      EXPECT_GE(placement->maxLoad, best - 1e-9);
      EXPECT_TRUE(!placement->isExact || std::abs(placement->maxLoad - best) < 1e-9);
      expectSound(problem, *placement);
    }
  }
}

TEST(Placement, KeepsItsRulesOnLargerGraphs) {
  Dice dice(9);
  for (uint32_t round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    PlacementProblem problem = randomProblem(dice, 30 + dice.below(30), 2 + dice.below(4));
    problem.cpus = std::max(problem.cpus, 1u);
    auto placement = place(problem), again = place(problem);
    ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
    ASSERT_TRUE(bool(again));
    expectSound(problem, *placement);
    EXPECT_EQ(assignment(problem, *placement), assignment(problem, *again));
    EXPECT_EQ(placement->maxLoad, again->maxLoad);
  }
}

/// A node of one colour of its own.
static PlacementProblem::Node nodeOf(uint32_t index, double latency, double size = 0) {
  PlacementProblem::Node node;
  node.id = index;
  node.colour = index;
  node.acceleratorLatency = latency;
  node.cpuLatency = 10 * latency;
  node.size = size;
  return node;
}

/// `width` nodes side by side, which have 2^width downsets.
static PlacementProblem sideBySide(uint32_t width) {
  PlacementProblem problem;
  for (uint32_t index = 0; index < width; ++index)
    problem.nodes.push_back(nodeOf(index, 1 + index % 3));
  problem.accelerators = 3;
  return problem;
}

TEST(Placement, LinearisesBeyondTheLimitAndSaysHowFarOff) {
  auto placement = place(sideBySide(40));
  ASSERT_TRUE(bool(placement));
  EXPECT_FALSE(placement->isExact);
  EXPECT_EQ(placement->downsets, 0u);
  EXPECT_NEAR(placement->lowerBound, 79.0 / 3, 1e-9);
  EXPECT_LE(placement->maxLoad, 29);
  EXPECT_GT(placement->gap(), 0);
  EXPECT_LT(placement->gap(), 0.1);
}

/// Weights take room, and there is too little of it for the proof that they may stay with what uses them.
TEST(Placement, ProvesTheOptimumWhereNodesWithoutTimeTakeRoom) {
  PlacementProblem problem;
  for (uint32_t index = 0; index < 40; ++index)
    problem.nodes.push_back(nodeOf(index, index < 8 ? 1 : 0, 1));
  for (uint32_t index = 1; index < 40; ++index)
    problem.edges.push_back({index < 8 ? index - 1 : index, index % 8});
  problem.accelerators = 2;
  problem.sizeLimit = 20;
  auto placement = place(problem);
  ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
  EXPECT_TRUE(placement->isExact);
  EXPECT_EQ(placement->maxLoad, 4);
  EXPECT_EQ(placement->downsets, 9u);
  expectSound(problem, *placement);
}

TEST(Placement, CountsDownsets) {
  auto placement = place(sideBySide(5));
  ASSERT_TRUE(bool(placement));
  EXPECT_EQ(placement->downsets, 32u);
  EXPECT_EQ(placement->gap(), 0);
}

/// Long, so that pairs are many, and hardly a state is better than all with fewer devices.
TEST(Placement, EndsOnAChainOnManyDevicesOfBothKinds) {
  PlacementProblem problem;
  for (uint32_t index = 0; index < 3000; ++index) {
    problem.nodes.push_back(nodeOf(index, index < 2000 ? 1e-9 * (1 + index % 7) : 1));
    if (index > 0)
      problem.edges.push_back({index - 1, index});
  }
  problem.accelerators = 40;
  problem.cpus = 20;
  auto placement = place(problem, {/*downsets=*/200000, /*work=*/100000000});
  ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
  EXPECT_FALSE(placement->isExact);
  EXPECT_GE(placement->lowerBound, 1000.0 / 42);
  EXPECT_LE(placement->maxLoad, 1.2 * placement->lowerBound);
  expectSound(problem, *placement);

  // Where they take no time, one state is better than all others.
  for (uint32_t index = 0; index < 2000; ++index)
    problem.nodes[index].acceleratorLatency = 0;
  placement = place(problem);
  ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
  EXPECT_TRUE(placement->isExact);
  expectSound(problem, *placement);
}

TEST(Placement, CountsTheWorkOfASearch) {
  const GroupGraph graph = contract(sideBySide(10));
  const DownsetLattice lattice = *DownsetLattice::all(graph, 2000);
  DownsetSearch search(graph, {std::vector<DeviceRow::Accelerator>(2), /*cpus=*/1}, lattice);
  uint64_t work = 100, enough = 100000000;
  EXPECT_FALSE(search.run(kNever, work));
  EXPECT_EQ(work, 0u);
  EXPECT_TRUE(search.run(kNever, enough));
  // States of all downsets, and each of these above the empty one.
  EXPECT_LT(enough, 100000000u - 1024 * 6 - 1023);
  EXPECT_GT(enough, 0u);
}

TEST(Placement, FitsWhatFitsButForRounding) {
  PlacementProblem problem;
  problem.nodes = {nodeOf(0, 1, 0.1), nodeOf(1, 1, 0.2)};
  problem.sizeLimit = 0.3;
  auto placement = place(problem);
  ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
  EXPECT_EQ(placement->maxLoad, 2);
}

/// `count` nodes of each size, without edges.
static PlacementProblem nodesOfSizes(uint32_t count, std::initializer_list<double> sizes) {
  PlacementProblem problem;
  for (double size : sizes)
    for (uint32_t index = 0; index < count; ++index)
      problem.nodes.push_back(nodeOf(problem.nodes.size(), 1, size));
  problem.accelerators = 20;
  problem.sizeLimit = 10;
  return problem;
}

TEST(Placement, FillsAcceleratorsBySize) {
  const PlacementProblem problem = nodesOfSizes(20, {6, 4});
  auto placement = place(problem);
  ASSERT_TRUE(bool(placement)) << toString(placement.takeError());
  EXPECT_EQ(placement->maxLoad, 2);
  expectSound(problem, *placement);
}

static std::string failureOf(const PlacementProblem &problem) {
  auto placement = place(problem);
  return placement ? "placed" : toString(placement.takeError());
}

TEST(Placement, SaysWhatWasNotTried) {
  EXPECT_EQ(failureOf(nodesOfSizes(20, {4, 3, 3})),
            "no linear order that was tried keeps each of 20 accelerators within a size of 10, and there are "
            "too many downsets to try all placements; use --devices 21 or more, or a larger maxSizePerFPGA");
}

TEST(Placement, SaysWhatDoesNotFit) {
  PlacementProblem problem;
  EXPECT_EQ(failureOf(problem),
            "found 0 nodes, 1 accelerators and 0 CPUs, expected a node and a device at least; give some");
  problem.nodes = {nodeOf(0, 1, 6), nodeOf(1, 1, 6), nodeOf(2, 1, 6)};
  problem.edges = {{0, 1}, {1, 2}};
  problem.sizeLimit = 5;
  EXPECT_EQ(failureOf(problem),
            "node 0: found a size of 6, an accelerator holds 5; set maxSizePerFPGA to 6 or more, or "
            "maxCPUs to 1 or more");
  problem.sizeLimit = 7;
  EXPECT_EQ(failureOf(problem),
            "1 accelerators hold 7, the nodes' sizes add up to 18; use --devices 3 or more");
  problem.accelerators = 2;
  problem.sizeLimit = 10;
  EXPECT_EQ(failureOf(problem),
            "no contiguous placement keeps each of 2 accelerators within a size of 10; use --devices 3 or "
            "more, or a larger maxSizePerFPGA");
  problem.nodes[1].isSupported = false;
  EXPECT_EQ(failureOf(problem),
            "node 1: not supported on accelerators, and there are no CPUs; set maxCPUs to 1 or more");
  problem.nodes[1].isSupported = true;
  problem.nodes[2].colour = 1;
  EXPECT_EQ(failureOf(problem),
            "nodes 1, 2 (on one device): found a size of 12, an accelerator holds 10; set "
            "maxSizePerFPGA to 12 or more, or maxCPUs to 1 or more");
}
