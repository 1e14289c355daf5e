//===- CutStatistics.cpp - What stages of a cut send and hold -------------===//
#include "partitioner/cutting/CutStatistics.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <map>

namespace cleave {

std::vector<TransferSize> transfersOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                                      uint32_t ranks) {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> bytes;
  for (const StageGraph::Value &value : graph.values) {
    llvm::SmallDenseSet<uint32_t> users;
    for (uint32_t consumer : value.consumers)
      if (const uint32_t from = stageOf[value.producer], to = stageOf[consumer];
          from % ranks != to % ranks && users.insert(to).second)
        bytes[{from, to}] += value.bytes;
  }
  std::vector<TransferSize> transfers;
  for (auto [ends, amount] : bytes)
    transfers.push_back({ends.first, ends.second, amount});
  return transfers;
}

std::vector<int64_t> peakLiveBytes(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf,
                                   uint32_t stages) {
  const uint32_t nodes = graph.nodes.size();
  std::vector<int64_t> begins(nodes), ends(nodes), live(stages), most(stages);
  for (const StageGraph::Value &value : graph.values) {
    std::map<uint32_t, uint32_t> lastUse;
    for (uint32_t consumer : value.consumers)
      lastUse[stageOf[consumer]] = std::max(lastUse[stageOf[consumer]], consumer);
    const uint32_t maker = stageOf[value.producer];
    begins[value.producer] += value.bytes;
    // A value that another stage uses stays until the end, since it must be sent.
    if (lastUse.size() == 1 && lastUse.count(maker))
      ends[lastUse[maker]] += value.bytes;
    for (auto [stage, last] : lastUse)
      if (stage != maker) {
        live[stage] += value.bytes;
        ends[last] += value.bytes;
      }
  }
  most = live;
  for (uint32_t node = 0; node < nodes; ++node) {
    int64_t &now = live[stageOf[node]];
    now += begins[node];
    most[stageOf[node]] = std::max(most[stageOf[node]], now);
    now -= ends[node];
  }
  return most;
}

std::vector<int64_t> weightsOf(const StageGraph &graph, llvm::ArrayRef<uint32_t> stageOf, uint32_t ranks) {
  std::vector<int64_t> bytes(ranks);
  llvm::DenseSet<std::pair<uint32_t, uint32_t>> held;
  for (auto [node, stage] : llvm::zip(graph.nodes, stageOf))
    for (uint32_t weight : node.weights)
      if (held.insert({stage % ranks, weight}).second)
        bytes[stage % ranks] += graph.weightBytes[weight];
  return bytes;
}

double criticalPathSeconds(const StageGraph &graph) {
  if (graph.nodes.empty())
    return 0;
  std::vector<double> ends(graph.nodes.size());
  std::vector<llvm::SmallVector<uint32_t>> sources(graph.nodes.size());
  for (const StageGraph::Value &value : graph.values)
    for (uint32_t consumer : value.consumers)
      sources[consumer].push_back(value.producer);
  for (auto [node, end] : llvm::enumerate(ends)) {
    for (uint32_t source : sources[node])
      end = std::max(end, ends[source]);
    end += graph.nodes[node].minSeconds();
  }
  return *llvm::max_element(ends);
}

} // namespace cleave
