//===- HtmlTimeline.h - Timeline of devices ---------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H

#include "tools/cleave/inspect/HtmlWriter.h"
#include "tools/driver/base/Forecast.h"

namespace cleave {

/// Writes one step: a row of forwards, backwards and transfers for each device, with equal devices in one
/// row; below, on the same time axis, the memory that they hold.
void writeTimeline(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLTIMELINE_H
