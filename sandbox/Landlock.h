//===- Landlock.h - Files that this process may open ------------*- C++ -*-===//
#ifndef CLEAVE_SANDBOX_LANDLOCK_H
#define CLEAVE_SANDBOX_LANDLOCK_H

#include "sandbox/Sandbox.h"

namespace cleave::sandbox {

/// Limits the calling thread, and threads and processes that it makes later, to these files. TCP is refused,
/// and so are abstract sockets of and signals to other processes, as far as the kernel's Landlock version
/// supports it. `no_new_privs` must be set.
/// \returns the version, or minus the errno: then nothing is limited.
int limitFiles(const Rights &rights);

} // namespace cleave::sandbox

#endif // CLEAVE_SANDBOX_LANDLOCK_H
