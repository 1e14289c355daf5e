//===- Supervisor.h - Supervises work on untrusted files --------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H

#include "codegen/plan/files/OutputBroker.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

class StopSource;

/// Limits of a child process; 0: no limit.
struct ProcessLimits {
  /// Anonymous memory, resident or swapped out.
  uint64_t memoryBytes = defaultMemoryBytes();
  /// Wall-clock time of the process.
  uint64_t seconds = 3600;

  /// Nine tenths of the machine's memory.
  static uint64_t defaultMemoryBytes();
};

/// What a supervised child process may access and write, its limits, and how it shows progress.
struct Confinement {
  std::string file;
  ProcessLimits limits;
  /// Other readable files, as in sandbox::FileAccess: files named by the command line, never files named only
  /// by the untrusted file.
  std::vector<std::string> files, folders;
  /// Libraries of operators, which are trusted and loaded before the work.
  std::vector<std::string> libraries;
  /// Files that a helper process (OutputBroker) creates and commits: the work itself may write only an
  /// uncommitted plan.
  plan::OutputPaths outputs;
  /// No sandbox: the file is trusted, or the work needs what a sandbox cannot grant.
  bool unsandboxed = false;
  /// The work draws a progress bar if stderr is a terminal.
  bool drawsBar = false;
  /// Stop source of the work's search, in memory shared with child processes: the first SIGINT that arrives
  /// during the search ends the search, not the process. Null: no search.
  StopSource *stop = nullptr;
};

/// Allocates a stop source in shared memory that lives as long as the process. Null if there is no memory for
/// it.
StopSource *makeSharedStop();

/// Runs `work` in a child process and returns its exit status. A TorchScript file is a program: loading it
/// executes it, and libtorch trusts it. So the child runs in a sandbox (sandbox/Sandbox.h), as far as the
/// system has one. If the child crashes or exceeds a limit, its unfinished files are removed, one error names
/// `command` and the file, and the status is 1. Signals that end this process are forwarded to the child;
/// this process ends as soon as the child has ended. A SIGINT counts once, whether a terminal sends it to
/// both processes or somebody to this one alone.
///
/// Call while the process has one thread.
int supervise(llvm::StringRef command, const Confinement &confinement, llvm::function_ref<int()> work);

/// Installs handlers so that a signal that ends the process is announced in a line on stderr, as in
/// `supervise`.
/// \param stop  as in Confinement; may be null.
void announceSignals(llvm::StringRef command, StopSource *stop);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H
