//===- Output.h - What goes to the standard streams -------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H

#include "llvm/Support/Error.h"
#include <string>

namespace cleave {

/// Ends what was written to llvm::outs(); fails where it did not all arrive.
llvm::Error finishOutput();

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_OUTPUT_H
