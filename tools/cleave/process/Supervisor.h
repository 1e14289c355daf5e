//===- Supervisor.h - Work on files from strangers --------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H
#define CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H

#include "codegen/plan/OutputBroker.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave {

class StopSource;

/// What a process may take; 0: as much as it wants.
struct Limits {
  /// Of memory that belongs to no file, resident or swapped out.
  uint64_t memoryBytes = defaultMemoryBytes();
  /// From its beginning to its end.
  uint64_t seconds = 3600;

  /// Nine tenths of the machine's memory.
  static uint64_t defaultMemoryBytes();
};

/// What work on a file is allowed, and what it does beside it.
struct Confinement {
  std::string file;
  Limits limits;
  /// What it reads beside its file, as sandbox::Rights has it: what the command line names, and nothing that
  /// only whoever sent the file has named.
  std::vector<std::string> files, folders;
  /// Of operators, which are trusted and loaded before it begins.
  std::vector<std::string> libraries;
  /// What it writes, through a process beside it: the work itself may write nothing but an unfinished plan.
  plan::OutputPaths outputs;
  /// No sandbox: the file is trusted, or the work needs what a sandbox cannot give.
  bool isFree = false;
  /// It draws a progress bar where that can be done.
  bool drawsBar = false;
  /// Of a search that the work may do, in memory that child processes share: the first SIGINT that it hears
  /// ends the search, not the process. Null: none.
  StopSource *stop = nullptr;
};

/// One for Confinement; lives as long as the process. Null where there is no memory for it.
StopSource *makeSharedStop();

/// Runs `work` in a child process and gives its exit status. A TorchScript file is a program:
/// reading it executes it, and libtorch trusts it. So the child is in a sandbox (sandbox/Sandbox.h), as far
/// as the system has one. Where the child crashes or goes beyond a limit, what it had not finished is
/// removed, one error that names `command` and the file says so, and the status is 1. Signals that end this
/// process are handed on, and end it as soon as the child has ended. SIGINT counts once, whether a terminal
/// sends it to both or somebody to this process alone.
///
/// To be called while the process has one thread.
int supervise(llvm::StringRef command, const Confinement &confinement, llvm::function_ref<int()> work);

/// From now on signals that end the process say so in a line on the standard error, as `supervise` does.
/// \param stop  of a search that the process may do: as in Confinement. May be null.
void announceSignals(llvm::StringRef command, StopSource *stop);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_PROCESS_SUPERVISOR_H
