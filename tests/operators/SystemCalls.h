//===- SystemCalls.h - System calls that no kernel makes --------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H
#define CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H

#include <csignal>

namespace cleave::operators {

/// From now on, this process gets SIGSYS when it opens, changes or removes files, starts processes or
/// threads, accesses other processes, or opens sockets.
void trapSystemCalls();

/// For a handler of SIGSYS: true if the trapped call is an `openat` of CPU information in /sys or /proc or of
/// MKL's message catalogue, which libraries open by themselves; the call then fails with ENOENT, and the
/// handler may return.
bool answerTrap(const siginfo_t &trap, void *context);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H
