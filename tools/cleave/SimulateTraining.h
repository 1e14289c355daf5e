//===- SimulateTraining.h - `cleave simulate --train` -----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_SIMULATETRAINING_H
#define CLEAVE_TOOLS_CLEAVE_SIMULATETRAINING_H

#include "tools/driver/search/TrainingForecast.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

llvm::json::Object toJson(const CompileOptions &options, const TrainingForecast &report);

/// One row per pipeline rank, as formatTrace writes it.
std::string traceOf(const TrainingForecast &report);

/// Prints one row per pipeline rank.
void printText(llvm::raw_ostream &out, const CompileOptions &options, const TrainingForecast &report);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_SIMULATETRAINING_H
