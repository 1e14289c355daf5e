//===- HtmlPareto.h - Time against memory -----------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPARETO_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPARETO_H

#include "codegen/plan/Plan.h"
#include "tools/cleave/inspect/HtmlWriter.h"

namespace cleave {

/// Writes a chart and a table of the evaluated configurations as points of time and memory, and marks the
/// Pareto front.
void writePareto(HtmlWriter &html, const plan::MeshCandidates &candidates);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPARETO_H
