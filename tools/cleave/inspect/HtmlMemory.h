//===- HtmlMemory.h - Memory of devices -------------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H

#include "tools/cleave/inspect/HtmlWriter.h"
#include "tools/driver/base/Forecast.h"

namespace cleave {

/// Writes a bar for each device, of weights and other memory at the peak, against the device's memory, and a
/// table of all numbers.
void writeMemory(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLMEMORY_H
