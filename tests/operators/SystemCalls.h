//===- SystemCalls.h - System calls that no kernel makes --------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H
#define CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H

#include <csignal>

namespace cleave::operators {

/// From now on, in this process: SIGSYS where it opens, changes or removes files, starts processes or
/// threads, reaches other processes, or opens sockets.
void trapSystemCalls();

/// For a handler of SIGSYS: whether a library only asked for properties of the CPU or its own texts; the call
/// then fails with ENOENT, and the handler may return.
bool answerTrap(const siginfo_t &trap, void *context);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_SYSTEMCALLS_H
