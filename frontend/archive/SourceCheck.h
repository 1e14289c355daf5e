//===- SourceCheck.h - Source code at which libtorch crashes ----*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_SOURCECHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_SOURCECHECK_H

#include "llvm/Support/Error.h"
#include <string>

namespace cleave {

/// Refuses TorchScript source that has an empty subscript, `x[]`: libtorch's compiler reads the first index
/// without checking that there is one, and then writes to an invalid address. libtorch reports other errors
/// itself.
llvm::Error checkEmptySubscripts(const std::string &code);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_SOURCECHECK_H
