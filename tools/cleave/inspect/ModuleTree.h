//===- ModuleTree.h - The modules of a stage, nested ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H

#include "codegen/plan/PlanQueries.h"

namespace cleave {

/// A module, with the ops that the stage executes for it.
struct ModuleNode {
  std::string path;
  /// Number of ops of the module itself, and with its submodules.
  uint32_t ownOps = 0, ops = 0;
  int64_t ownWeightBytes = 0, weightBytes = 0;
  /// Submodules in program order, as indices into the tree.
  std::vector<uint32_t> children = {};
};

/// The modules of one stage as a tree. Node 0 is the model itself; every other node comes after its parent.
/// Paths come from an untrusted plan; beyond some depth the rest of a path is one name.
std::vector<ModuleNode> nestModules(llvm::ArrayRef<ModuleShare> shares);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_MODULETREE_H
