//===- PickleCheck.h - Whether a pickle asks for more than it holds -*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_PICKLECHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_PICKLECHECK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace cleave {

/// libtorch makes room for what a pickle says before it looks whether that is there: for strings, up to 4
/// GiB, and for its table of things seen before, 16 bytes for each number up to the one named. Refuses
/// strings that are longer than the rest of the pickle, and numbers beyond its length. What else may be wrong
/// is left to libtorch, as are opcodes that it does not know. Format: the comments of CPython's
/// Lib/pickletools.py.
llvm::Error checkPickle(llvm::ArrayRef<uint8_t> pickle);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_PICKLECHECK_H
