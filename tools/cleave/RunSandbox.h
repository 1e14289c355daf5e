//===- RunSandbox.h - Sandbox of a running plan -----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H
#define CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H

#include "codegen/plan/files/OutputBroker.h"
#include "runtime/session/Session.h"

namespace cleave {

/// What a sandboxed process reads and writes; an empty name: none.
struct SandboxFiles {
  /// A folder.
  std::string plan;
  std::vector<std::string> read, written;
};

/// Sandboxes this process before anything of the plan runs: no access to files other than the plan's and the
/// inputs, to other processes or to the network. A helper process (OutputBroker) creates the output files and
/// commits them.
class RunSandbox {
public:
  /// Starts the helper process. Call while this process has one thread.
  /// \param choice  `on`, `off`, or `auto`: on, except for GPUs, whose drivers need more access than a
  ///     sandbox can grant; then with a note.
  static llvm::Expected<RunSandbox> prepare(llvm::StringRef choice, const SandboxFiles &files,
                                            const runtime::SessionOptions &session);
  /// Loads libraries of operators, which are trusted, then drops all other access. With several processes,
  /// call once they have joined. Threads that exist already keep their access: they are libtorch's and ours,
  /// and run nothing of a plan. Where the system has no sandbox, `on` fails and `auto` prints a note on
  /// stderr, in rank 0 of several processes.
  llvm::Error enter(const std::optional<runtime::Launch> &launch);

private:
  RunSandbox() = default;
  llvm::Error restrictAccess();
  bool isWanted = false, isRequired = false;
  std::vector<std::string> files, folders, libraries;
  /// A line where `auto` found no complete sandbox; else empty.
  std::string missing;
  std::unique_ptr<plan::OutputBroker> broker;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H
