//===- Landlock.h - Files that this process may open ------------*- C++ -*-===//
#ifndef CLEAVE_SANDBOX_LANDLOCK_H
#define CLEAVE_SANDBOX_LANDLOCK_H

#include "sandbox/Sandbox.h"

namespace cleave::sandbox {

/// Limits the calling thread, and threads and processes that it makes later, to these files. Refuses TCP,
/// connections to abstract sockets of other processes, and signals to them, as far as the kernel's Landlock
/// version supports it. `no_new_privs` must be set. \returns the version, or minus the errno: then nothing is
/// limited.
int limitFiles(const FileAccess &allowed);

} // namespace cleave::sandbox

#endif // CLEAVE_SANDBOX_LANDLOCK_H
