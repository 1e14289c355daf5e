//===- InSandbox.h - Work in a process that has given up its rights -*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_SANDBOX_INSANDBOX_H
#define CLEAVE_TESTS_UNIT_SANDBOX_INSANDBOX_H

#include "sandbox/Sandbox.h"
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::sandbox {

/// The status, as waitpid has it, of a child that enters the sandbox and ends with what `work` returns; 99
/// where the system has no whole one.
inline int statusInSandbox(const FileAccess &allowed, const std::function<int()> &work) {
  const pid_t child = fork();
  if (child == 0)
    _exit(enter(allowed).isWhole() ? work() : 99);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// The exit status of the same; that of a signal is negative.
inline int inSandbox(const FileAccess &allowed, const std::function<int()> &work) {
  const int status = statusInSandbox(allowed, work);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

} // namespace cleave::sandbox

#endif // CLEAVE_TESTS_UNIT_SANDBOX_INSANDBOX_H
