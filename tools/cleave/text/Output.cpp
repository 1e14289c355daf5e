//===- Output.cpp - Standard output ---------------------------------------===//
#include "tools/cleave/text/Output.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave {

llvm::Error finishOutput() {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  std::error_code error = out.error();
  out.clear_error();
  if (error)
    return llvm::createStringError("cannot write to the standard output: " + error.message());
  return llvm::Error::success();
}

} // namespace cleave
