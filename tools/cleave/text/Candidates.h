//===- Candidates.h - Table of evaluated meshes -----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_CANDIDATES_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_CANDIDATES_H

#include "codegen/plan/Plan.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

llvm::json::Array toJson(const plan::MeshCandidates &candidates);

/// Prints a table of the chosen mesh and the next best ones, each with its best number of micro-batches, and
/// why they lost. Prints nothing if there was no search.
void printCandidates(llvm::raw_ostream &out, const plan::MeshCandidates &candidates);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_CANDIDATES_H
