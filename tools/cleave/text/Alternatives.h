//===- Alternatives.h - The meshes that were weighed ------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H

#include "codegen/plan/Plan.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

llvm::json::Array toJson(const plan::Alternatives &alternatives);

/// A table of the chosen mesh and of the next best ones, each with its best number of micro-batches, and why
/// they lost; nothing where the mesh was not searched for.
void printAlternatives(llvm::raw_ostream &out, const plan::Alternatives &alternatives);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H
