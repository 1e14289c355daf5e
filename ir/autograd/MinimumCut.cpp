//===- MinimumCut.cpp - What to save, at the fewest bytes -----------------===//
#include "ir/autograd/MinimumCut.h"
#include "llvm/ADT/BitVector.h"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace cleave {

namespace {
using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using EdgeProperties =
    boost::property<boost::edge_capacity_t, int64_t,
                    boost::property<boost::edge_residual_capacity_t, int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>;
using Network =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeProperties>;

/// A value is an edge from its in-vertex to its out-vertex, which is cut where the value is saved. Flow goes
/// from what must not be recomputed to what the backward pass reads.
class SavedValues {
public:
  explicit SavedValues(llvm::ArrayRef<ForwardValue> values);
  std::vector<bool> recomputed();

private:
  static constexpr unsigned kSource = 0, kSink = 1;
  static unsigned inVertex(unsigned value) { return 2 + 2 * value; }
  static unsigned outVertex(unsigned value) { return 3 + 2 * value; }
  void addEdge(unsigned from, unsigned to, int64_t capacity);
  llvm::BitVector reachingSink();

  const size_t count;
  Network network;
};
} // namespace

void SavedValues::addEdge(unsigned from, unsigned to, int64_t capacity) {
  auto forward = add_edge(from, to, network).first, backward = add_edge(to, from, network).first;
  put(boost::edge_capacity, network, forward, capacity);
  put(boost::edge_capacity, network, backward, 0);
  put(boost::edge_reverse, network, forward, backward);
  put(boost::edge_reverse, network, backward, forward);
}

SavedValues::SavedValues(llvm::ArrayRef<ForwardValue> values)
    : count(values.size()), network(2 + 2 * values.size()) {
  // More than any cut that is possible.
  int64_t unlimited = 1;
  for (const ForwardValue &value : values)
    unlimited += value.bytes.value_or(0);
  for (unsigned index = 0; index < count; ++index) {
    const ForwardValue &value = values[index];
    addEdge(inVertex(index), outVertex(index), value.bytes.value_or(unlimited));
    if (!value.mayRecompute)
      addEdge(kSource, inVertex(index), unlimited);
    if (value.isRead)
      addEdge(outVertex(index), kSink, unlimited);
    if (value.mayRecompute)
      for (unsigned operand : value.operands)
        addEdge(outVertex(operand), inVertex(index), unlimited);
  }
}

/// The side of the cut that is next to the sink, as small as it can be.
llvm::BitVector SavedValues::reachingSink() {
  llvm::BitVector reaching(2 + 2 * count);
  llvm::SmallVector<unsigned> pending{kSink};
  reaching.set(kSink);
  while (!pending.empty()) {
    for (auto [edge, end] = out_edges(pending.pop_back_val(), network); edge != end; ++edge) {
      const unsigned from = target(*edge, network);
      const auto towardsSink = get(boost::edge_reverse, network, *edge);
      if (reaching.test(from) || get(boost::edge_residual_capacity, network, towardsSink) == 0)
        continue;
      reaching.set(from);
      pending.push_back(from);
    }
  }
  return reaching;
}

std::vector<bool> SavedValues::recomputed() {
  push_relabel_max_flow(network, kSource, kSink);
  const llvm::BitVector reaching = reachingSink();
  std::vector<bool> found;
  for (unsigned index = 0; index < count; ++index)
    found.push_back(reaching.test(inVertex(index)));
  return found;
}

std::vector<bool> recomputedByMinimumCut(llvm::ArrayRef<ForwardValue> values) {
  return SavedValues(values).recomputed();
}

} // namespace cleave
