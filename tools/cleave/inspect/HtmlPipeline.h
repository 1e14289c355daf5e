//===- HtmlPipeline.h - Stages of a plan ------------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H

#include "codegen/plan/Plan.h"
#include "tools/cleave/inspect/HtmlWriter.h"

namespace cleave {

/// Writes the stages of a plan as columns, with their modules and the transfers between them; an overview
/// first if there are many.
void writePipeline(HtmlWriter &html, const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H
