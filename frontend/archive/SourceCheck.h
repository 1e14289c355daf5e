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

/// libtorch takes the first index of a subscript without looking whether there is one, and writes through
/// what it finds. Refuses code with an empty subscript, `x[]`. What else may be wrong is left to libtorch,
/// which says so.
llvm::Error checkSource(const std::string &code);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_SOURCECHECK_H
