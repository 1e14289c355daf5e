//===- SystemCalls.h - System calls that this process may make --*- C++ -*-===//
#ifndef CLEAVE_SANDBOX_SYSTEMCALLS_H
#define CLEAVE_SANDBOX_SYSTEMCALLS_H

namespace cleave::sandbox {

/// Refuses all threads of this process the system calls that reach other processes, the network, or what
/// Landlock does not restrict: permissions, times, the kernel's settings. `no_new_privs` must be set.
/// \returns 0, or the errno: then nothing is refused.
int blockSystemCalls();

/// Refuses io_uring alone.
int blockIoUringCalls();

} // namespace cleave::sandbox

#endif // CLEAVE_SANDBOX_SYSTEMCALLS_H
