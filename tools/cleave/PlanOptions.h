//===- PlanOptions.h - Options of compile and simulate ----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H
#define CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H

#include "tools/cleave/process/Supervisor.h"
#include "tools/driver/Compile.h"
#include <CLI/CLI.hpp>

namespace cleave {

/// Adds the options that `compile` and `simulate` share: inputs, devices, and transformations of the model.
void addPlanOptions(CLI::App *command, CompileOptions &options);

/// Allows a sandboxed child what `compile` needs besides the model: its files, and the memory through which
/// Ctrl-C stops the search.
void addCompilationAccess(const CompileOptions &options, Confinement &confinement);

/// Allows a sandboxed child the files of --inputs.
void addInputsFiles(llvm::ArrayRef<std::string> texts, Confinement &confinement);

/// Adds --device-memory, which fills `sizes` with one size, or with several if `takesSeveral`.
void addDeviceMemoryOption(CLI::App *command, std::vector<int64_t> &sizes, bool takesSeveral);

/// Rejects an empty text, which a shell makes of an unset variable.
CLI::Validator notEmpty(const std::string &expected);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PLANOPTIONS_H
