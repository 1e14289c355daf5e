//===- HtmlLosses.h - Losses of a training ----------------------*- C++ -*-===//
//
// Private to `inspect --format html`.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLLOSSES_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLLOSSES_H

#include "tools/cleave/inspect/HtmlWriter.h"
#include "llvm/Support/Error.h"
#include <vector>

namespace cleave {

/// Reads `losses` of a file that `cleave train --json` printed: one for each step, NaN where it is not
/// finite. Fails if the file has no such list.
llvm::Expected<std::vector<double>> readLosses(llvm::StringRef path);

/// Draws losses by step, each point the mean of a few steps if there are many.
void writeLosses(HtmlWriter &html, llvm::ArrayRef<double> losses);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLLOSSES_H
