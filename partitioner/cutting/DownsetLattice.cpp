//===- DownsetLattice.cpp - The downsets of a DAG -------------------------===//
#include "partitioner/cutting/DownsetLattice.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <unordered_set>

namespace cleave {

/// Bytes of downsets and steps while they are enumerated.
static constexpr uint64_t kMaxBytes = 512ull << 20;

/// Enumerates downsets breadth first, so that subsets come first. A downset is a row of bits, found by its
/// hash.
class DownsetEnumeration {
public:
  DownsetEnumeration(const GroupGraph &graph, uint64_t most)
      : graph(graph), words((graph.groups.size() + 63) / 64), most(most), known(16, Hash{this}, Equal{this}) {
  }

  /// False if there are too many.
  bool run();
  /// Fills in `later`.
  void link();
  DownsetLattice lattice;

private:
  struct Hash {
    const DownsetEnumeration *all;
    size_t operator()(uint32_t downset) const {
      const auto row = all->row(downset);
      return llvm::hash_combine_range(row.begin(), row.end());
    }
  };
  struct Equal {
    const DownsetEnumeration *all;
    bool operator()(uint32_t a, uint32_t b) const { return all->row(a) == all->row(b); }
  };

  llvm::ArrayRef<uint64_t> row(uint32_t downset) const {
    return llvm::ArrayRef(bits).slice(downset * words, words);
  }
  bool contains(uint32_t downset, uint32_t group) const {
    return row(downset)[group / 64] >> (group % 64) & 1;
  }
  /// The downset with `group` added; a new one gets the next number.
  uint32_t grow(uint32_t downset, uint32_t group);
  /// Adds steps from `target`, which is `from` with `added`: the groups that could be added before, and those
  /// that `added` has made ready.
  void addSteps(uint32_t target, uint32_t from, uint32_t added);

  const GroupGraph &graph;
  const size_t words;
  const uint64_t most;
  uint32_t count = 0;
  std::vector<uint64_t> bits;
  std::unordered_set<uint32_t, Hash, Equal> known;
};

uint32_t DownsetEnumeration::grow(uint32_t downset, uint32_t group) {
  bits.resize((count + 1) * words);
  std::copy_n(bits.begin() + downset * words, words, bits.begin() + count * words);
  bits[count * words + group / 64] |= uint64_t(1) << (group % 64);
  const auto [found, isNew] = known.insert(count);
  if (isNew) {
    lattice.down.push_back({group, downset});
    ++count;
  }
  return *found;
}

void DownsetEnumeration::addSteps(uint32_t target, uint32_t from, uint32_t added) {
  for (uint32_t step = lattice.firstSteps[from]; step < lattice.firstSteps[from + 1]; ++step)
    if (lattice.allSteps[step].group != added)
      lattice.allSteps.push_back({lattice.allSteps[step].group, 0});
  for (uint32_t group : graph.successors[added])
    if (llvm::all_of(graph.predecessors[group], [&](uint32_t before) { return contains(target, before); }))
      lattice.allSteps.push_back({group, 0});
}

static bool isEarlier(const DownsetLattice::Step &a, const DownsetLattice::Step &b) {
  return a.group < b.group;
}

void DownsetEnumeration::link() {
  const auto begin = lattice.allSteps.begin();
  for (DownsetLattice::Step &step : lattice.allSteps)
    step.later = std::upper_bound(begin + lattice.firstSteps[step.target],
                                  begin + lattice.firstSteps[step.target + 1], step, isEarlier) -
                 begin;
}

bool DownsetEnumeration::run() {
  bits.assign(words, 0);
  known.insert(count++);
  lattice.down.push_back({});
  lattice.firstSteps = {0};
  for (uint32_t downset = 0; downset < count; ++downset) {
    if (downset == 0) {
      for (uint32_t group = 0; group < graph.groups.size(); ++group)
        if (graph.predecessors[group].empty())
          lattice.allSteps.push_back({group, 0});
    } else {
      addSteps(downset, lattice.down[downset].target, lattice.down[downset].group);
    }
    std::sort(lattice.allSteps.begin() + lattice.firstSteps[downset], lattice.allSteps.end(), isEarlier);
    lattice.firstSteps.push_back(lattice.allSteps.size());
    for (uint32_t step = lattice.firstSteps[downset]; step < lattice.allSteps.size(); ++step) {
      lattice.allSteps[step].target = grow(downset, lattice.allSteps[step].group);
      if (count > most ||
          bits.size() * sizeof(uint64_t) + lattice.allSteps.size() * sizeof(DownsetLattice::Step) > kMaxBytes)
        return false;
    }
  }
  link();
  return true;
}

std::optional<DownsetLattice> DownsetLattice::all(const GroupGraph &graph, uint64_t most) {
  DownsetEnumeration enumeration(graph, most);
  if (!enumeration.run())
    return std::nullopt;
  return std::move(enumeration.lattice);
}

DownsetLattice DownsetLattice::chain(llvm::ArrayRef<uint32_t> order) {
  DownsetLattice lattice;
  lattice.firstSteps = {0};
  lattice.down.push_back({});
  for (uint32_t position = 0; position < order.size(); ++position) {
    // Steps of a chain link to the next one, whichever group it adds.
    lattice.allSteps.push_back({order[position], position + 1, position + 1});
    lattice.down.push_back({order[position], position});
    lattice.firstSteps.push_back(position + 1);
  }
  lattice.firstSteps.push_back(order.size());
  return lattice;
}

} // namespace cleave
