//===- ModuleTree.cpp - The modules of a stage, nested --------------------===//
#include "tools/cleave/inspect/ModuleTree.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

namespace cleave {

/// The tree is read recursively.
static constexpr size_t kMaxDepth = 24;

namespace {
class TreeBuilder {
public:
  TreeBuilder() : nodes(1) {}

  /// The node of a path. Creates it, and the nodes above it.
  uint32_t find(llvm::StringRef path) {
    uint32_t node = 0;
    size_t end = 0;
    for (size_t depth = 1; !path.empty() && end != llvm::StringRef::npos; ++depth) {
      end = depth < kMaxDepth ? path.find('.', end + (depth > 1)) : llvm::StringRef::npos;
      node = childOf(node, path.take_front(end));
    }
    return node;
  }
  std::vector<ModuleNode> nodes;

private:
  uint32_t childOf(uint32_t parent, llvm::StringRef path) {
    auto [entry, isNew] = indices.try_emplace(path, nodes.size());
    if (isNew) {
      nodes[parent].children.push_back(nodes.size());
      nodes.push_back({path.str()});
    }
    return entry->second;
  }

  llvm::StringMap<uint32_t> indices;
};
} // namespace

std::vector<ModuleNode> nestModules(llvm::ArrayRef<ModuleShare> shares) {
  TreeBuilder tree;
  for (const ModuleShare &share : shares) {
    ModuleNode &node = tree.nodes[tree.find(share.path)];
    node.ownOps += share.ops;
    node.ownWeightBytes += share.weightBytes;
  }
  // Children come after their parents.
  for (ModuleNode &node : llvm::reverse(tree.nodes)) {
    node.ops = node.ownOps;
    node.weightBytes = node.ownWeightBytes;
    for (uint32_t child : node.children) {
      node.ops += tree.nodes[child].ops;
      node.weightBytes += tree.nodes[child].weightBytes;
    }
  }
  return std::move(tree.nodes);
}

} // namespace cleave
