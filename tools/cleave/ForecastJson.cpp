//===- ForecastJson.cpp - JSON common to forecasts ------------------------===//
#include "tools/cleave/ForecastJson.h"

namespace cleave {

llvm::json::Array toJson(llvm::ArrayRef<MemoryStep> memory) {
  llvm::json::Array steps;
  for (const MemoryStep &step : memory)
    steps.push_back(llvm::json::Object{{"seconds", step.seconds}, {"bytes", step.bytes}});
  return steps;
}

llvm::json::Array toJson(llvm::ArrayRef<TransferSize> transfers) {
  llvm::json::Array all;
  for (const TransferSize &transfer : transfers)
    all.push_back(
        llvm::json::Object{{"from", transfer.from}, {"to", transfer.to}, {"bytes", transfer.bytes}});
  return all;
}

} // namespace cleave
