//===- HtmlPipeline.h - Stages side by side ---------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H

#include "codegen/plan/Plan.h"
#include "tools/cleave/inspect/HtmlWriter.h"

namespace cleave {

/// The stages of a plan as columns, with their modules and what flows between them; of many, an overview
/// first.
void writePipeline(HtmlWriter &html, const plan::Plan &plan);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLPIPELINE_H
