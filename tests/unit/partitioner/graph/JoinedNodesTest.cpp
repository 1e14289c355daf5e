#include "partitioner/graph/JoinedNodes.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

/// A graph of nodes that are connected so.
StageGraph graphOf(uint32_t nodes, std::vector<std::pair<uint32_t, uint32_t>> edges) {
  StageGraph graph;
  graph.nodes.resize(nodes);
  for (auto [from, to] : edges)
    graph.values.push_back({from, 1, {to}});
  return graph;
}

TEST(JoinedNodes, InterleavesTwoProgramsByProgress) {
  // 0 → 1 → 2 and 3 → 4 → 5.
  const StageGraph graph = graphOf(6, {{0, 1}, {1, 2}, {3, 4}, {4, 5}});
  EXPECT_EQ(joinNodes(graph, {}, {0, 0.3, 0.6, 0.1, 0.4, 0.7}), (std::vector<uint32_t>{0, 2, 4, 1, 3, 5}));
}

TEST(JoinedNodes, JoinsPairsInTheOrderOfTheirUsers) {
  const StageGraph graph = graphOf(6, {{0, 1}, {1, 2}, {3, 4}, {4, 5}});
  // The second program ends early; what it shares with the first comes where the first has it.
  EXPECT_EQ(joinNodes(graph, {{{1, 4}}}, {0, 0.3, 0.6, 0, 0.9, 0.95}),
            (std::vector<uint32_t>{0, 2, 3, 1, 2, 4}));
}

TEST(JoinedNodes, ContractsCycles) {
  // The programs use two weights in opposite orders, with 1 and 4 between them.
  const StageGraph graph = graphOf(6, {{0, 1}, {1, 2}, {3, 4}, {4, 5}});
  EXPECT_EQ(joinNodes(graph, {{{0, 5}, {2, 3}}}, {0, 0, 0, 0, 0, 0}),
            (std::vector<uint32_t>{0, 0, 0, 0, 0, 0}));
}

TEST(JoinedNodes, TakesAnEmptyGraph) { EXPECT_TRUE(joinNodes(StageGraph(), {}, {}).empty()); }

} // namespace
} // namespace cleave
