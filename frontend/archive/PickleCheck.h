//===- PickleCheck.h - Allocation check of a pickle -------------*- C++ -*-===//
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

/// Refuses a pickle that would make libtorch allocate more than the pickle can hold: strings longer than the
/// rest of the pickle, and memo numbers beyond its length. libtorch allocates what a pickle announces before
/// it checks that it is there: up to 4 GiB for a string, and 16 bytes for each memo number up to the one
/// named. All other errors, and unknown opcodes, are left to libtorch. Format: the comments of CPython's
/// Lib/pickletools.py.
llvm::Error checkPickle(llvm::ArrayRef<uint8_t> pickle);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_PICKLECHECK_H
