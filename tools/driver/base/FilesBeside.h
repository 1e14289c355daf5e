//===- FilesBeside.h - Files that cleave-trace writes -----------*- C++ -*-===//
//
// Files beside a model that no option names.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_FILESBESIDE_H
#define CLEAVE_TOOLS_DRIVER_BASE_FILESBESIDE_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace cleave {

/// The path that cleave-trace gives to a file about `model`: `gpt2.pt`, `inputs` →
/// `gpt2.inputs.safetensors`.
std::string pathBeside(llvm::StringRef model, llvm::StringRef kind);

/// Example inputs (`inputs`), and what the original module answered (`witnesses`). Empty if the file does not
/// exist, or is a symbolic link: whoever sent the model may have chosen its target.
std::string inputsBeside(llvm::StringRef model);
std::string witnessesBeside(llvm::StringRef model);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_FILESBESIDE_H
