//===- HtmlMemory.h - What devices hold -------------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H

#include "tools/cleave/inspect/HtmlWriter.h"
#include "tools/driver/base/Forecast.h"

namespace cleave {

/// A bar for each device, of weights and what lives beside them at the peak, against its memory; and a table
/// of all numbers.
void writeMemory(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H
