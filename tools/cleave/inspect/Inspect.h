//===- Inspect.h - A plan for people and for programs -----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H

#include "codegen/plan/PlanFile.h"
#include "tools/driver/base/Forecast.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// What `inspect --format json` prints; docs/plan-format.md lists the keys.
llvm::json::Object toJson(const plan::LoadedPlan &loaded);

/// How weights are split over tensor ranks, and what these exchange; and the dimensions that are split, from
/// which it follows.
void printSharding(llvm::raw_ostream &stream, const plan::Plan &plan);
void printDimensions(llvm::raw_ostream &stream, const plan::Plan &plan);

/// What `inspect` prints: the plan at a glance, a table of its stages, inputs and outputs, notes.
void printText(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded, llvm::StringRef name);

/// One page that needs nothing but itself: the stages side by side, what one step takes by `forecast`, or why
/// that is not known, and the configurations that were weighed. What names a plan holds is text in it, never
/// markup.
void printHtml(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded, llvm::StringRef name,
               llvm::Expected<PlanForecast> forecast);

/// A graph for Graphviz: the stages and what flows between them.
void printDot(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H
