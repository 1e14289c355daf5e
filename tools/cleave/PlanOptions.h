//===- PlanOptions.h - Options that decide what plan a model becomes -*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H
#define CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H

#include "tools/cleave/process/Supervisor.h"
#include "tools/driver/Compile.h"
#include <CLI/CLI.hpp>

namespace cleave {

/// Adds what `compile` and `simulate` share: inputs, devices, and what is done to the model.
void addPlanOptions(CLI::App *command, CompileOptions &options);

/// What a compilation needs besides the model: files, and the end of its search.
void addNeeds(const CompileOptions &options, Confinement &confinement);

/// Adds --device-memory, which fills `sizes` with one size, or with as many as are given.
void addDeviceMemoryOption(CLI::App *command, std::vector<int64_t> &sizes, bool takesSeveral);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H
