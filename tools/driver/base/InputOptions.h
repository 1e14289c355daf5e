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

/// A signature and its file of inputs.
struct SignatureFile {
  std::string signature, path;
};

/// The signatures that `FILE` or `NAME=FILE` texts name (CompileOptions::inputsFiles). Fails on names that
/// are none, or given twice.
llvm::Expected<std::vector<SignatureFile>> readSignatureFiles(llvm::ArrayRef<std::string> texts);

/// The inputs of each signature that the options describe, at least one. Fails on malformed text, and on
/// names that two options give.
llvm::Expected<std::vector<ModelInputs>> readInputOptions(const CompileOptions &options);

/// The name of the batch dimension of all signatures: `batch` if an option names one so, else the first
/// dimension of the first tensor. If that has no name, it and every first dimension of equal size are named
/// `batch` in `signatures`. Fails if signatures call it by different names.
llvm::Expected<std::string> nameBatch(llvm::MutableArrayRef<ModelInputs> signatures);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_INPUTOPTIONS_H
