//===- InputOptions.h - Example inputs from the command line ----*- C++ -*-===//
//
// Private to tools/driver/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_INPUTOPTIONS_H
#define CLEAVE_TOOLS_DRIVER_BASE_INPUTOPTIONS_H

#include "frontend/torchscript/ModelInputs.h"
#include "tools/driver/base/CompileOptions.h"

namespace cleave {

/// The inputs that the options describe. Fails on malformed text, and on names that two options give.
llvm::Expected<ModelInputs> readInputOptions(const CompileOptions &options);

/// The name of the batch dimension: `batch` if an option names one so, else the first dimension of the first
/// tensor. If that has no name, it and every first dimension of equal size are named `batch` in `inputs`.
std::string nameBatch(ModelInputs &inputs);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_INPUTOPTIONS_H
