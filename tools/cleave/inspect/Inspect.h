//===- Inspect.h - Reports about a plan -------------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H

#include "codegen/plan/PlanFile.h"
#include "tools/driver/base/Forecast.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

/// Output of `inspect --format json`; docs/plan-format.md lists the keys.
llvm::json::Object toJson(const plan::LoadedPlan &loaded);

/// Prints how weights are split over tensor-parallel ranks, which collectives these run, and the sharded
/// dimensions behind both.
void printSharding(llvm::raw_ostream &stream, const plan::Plan &plan);
void printShardingGroups(llvm::raw_ostream &stream, const plan::Plan &plan);

/// Prints the plan at a glance: a table of its stages, inputs and outputs, notes.
void printText(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded, llvm::StringRef name);

/// Prints one self-contained HTML page: the stages, the time of one step by `forecast` (or why it is not
/// known), the losses of a training, if there are any, and the evaluated configurations. Names from a plan
/// are escaped.
void printHtml(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded, llvm::StringRef name,
               llvm::Expected<PlanForecast> forecast, llvm::ArrayRef<double> losses = {});

/// Prints a Graphviz graph of the stages and the transfers between them.
void printDot(llvm::raw_ostream &stream, const plan::LoadedPlan &loaded);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_INSPECT_H
