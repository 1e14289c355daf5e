//===- ModuleTree.h - The modules of a stage, nested ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H

#include "codegen/plan/PlanFacts.h"

namespace cleave {

/// A module with what the stage does of it.
struct ModuleNode {
  std::string path;
  /// Of the module by itself, and with its submodules.
  uint32_t ownOps = 0, ops = 0;
  int64_t ownWeightBytes = 0, weightBytes = 0;
  /// Submodules in program order, as indices into the tree.
  std::vector<uint32_t> children = {};
};

/// The modules of one stage. Node 0 is the model itself, and every other comes after its parent. Paths are a
/// plan's and so may hold anything; beyond some depth the rest of a path is one name.
std::vector<ModuleNode> nestModules(llvm::ArrayRef<ModuleShare> shares);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H
