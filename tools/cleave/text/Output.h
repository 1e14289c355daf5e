//===- Output.h - Standard output -------------------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H

#include "llvm/Support/Error.h"
#include <string>

namespace cleave {

/// Flushes llvm::outs(); fails if not everything could be written.
llvm::Error finishOutput();

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H
