//===- HtmlTimeline.h - What devices do when --------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H

#include "tools/cleave/inspect/HtmlWriter.h"
#include "tools/driver/base/Forecast.h"

namespace cleave {

/// One step: a row of passes and messages for each device, those that act alike together; below, over the
/// same time, what they hold.
void writeTimeline(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H
