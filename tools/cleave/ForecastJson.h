//===- ForecastJson.h - JSON common to forecasts ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_FORECASTJSON_H
#define CLEAVE_TOOLS_CLEAVE_FORECASTJSON_H

#include "partitioner/simulation/Simulator.h"
#include "llvm/Support/JSON.h"

namespace cleave {

llvm::json::Array toJson(llvm::ArrayRef<MemoryStep> memory);
llvm::json::Array toJson(llvm::ArrayRef<TransferSize> transfers);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_FORECASTJSON_H
