//===- Alternatives.h - Table of evaluated meshes ---------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H

#include "codegen/plan/Plan.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

llvm::json::Array toJson(const plan::Alternatives &alternatives);

/// Prints a table of the chosen mesh and the next best ones, each with its best number of micro-batches, and
/// why they lost. Prints nothing if there was no search.
void printAlternatives(llvm::raw_ostream &out, const plan::Alternatives &alternatives);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_ALTERNATIVES_H
