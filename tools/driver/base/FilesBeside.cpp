//===- FilesBeside.cpp - Files that cleave-trace writes -------------------===//
#include "tools/driver/base/FilesBeside.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"

namespace cleave {

std::string pathBeside(llvm::StringRef model, llvm::StringRef kind) {
  model.consume_back(".pt");
  return (model + "." + kind + ".safetensors").str();
}

static std::string fileBeside(llvm::StringRef model, llvm::StringRef kind) {
  const std::string path = pathBeside(model, kind);
  llvm::sys::fs::file_status status;
  const bool isThere = !llvm::sys::fs::status(path, status, /*Follow=*/false) &&
                       status.type() == llvm::sys::fs::file_type::regular_file;
  return isThere ? path : "";
}

std::string inputsBeside(llvm::StringRef model) { return fileBeside(model, "inputs"); }

std::string witnessesBeside(llvm::StringRef model) { return fileBeside(model, "witnesses"); }

} // namespace cleave
