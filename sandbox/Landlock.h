//===- Landlock.h - Files that this process may open ------------*- C++ -*-===//
#ifndef CLEAVE_SANDBOX_LANDLOCK_H
#define CLEAVE_SANDBOX_LANDLOCK_H

#include "sandbox/Sandbox.h"

namespace cleave::sandbox {

/// Limits the calling thread, and threads and processes that it makes later, to these files. TCP and, of
/// other processes, abstract sockets and signals are refused where the kernel's version can. Takes
/// `no_new_privs` for granted.
/// \returns the version, or minus the errno: then nothing is limited.
int limitFiles(const Rights &rights);

} // namespace cleave::sandbox

#endif // CLEAVE_SANDBOX_LANDLOCK_H
