//===- RunSandbox.h - What a plan may reach while it runs -------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H
#define CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H

#include "codegen/plan/OutputBroker.h"
#include "runtime/session/Session.h"
#include "tools/cleave/run/RunFiles.h"

namespace cleave {

/// Keeps this process, once it has what it needs, from all files but the plan's and the inputs, and from
/// other processes and the network. Outputs are written by another process.
class RunSandbox {
public:
  /// Starts that process. To be called while this one has one thread.
  /// \param choice  `on`, `off`; `auto`: on, but for GPUs, whose drivers need more than could be given, with
  /// a note.
  static llvm::Expected<RunSandbox> prepare(llvm::StringRef choice, const RunFiles &files,
                                            const runtime::SessionOptions &session);
  /// Loads the libraries of operators, which are trusted, and gives up the rest; of several processes once
  /// they have met. Threads that are there then keep their files: they are libtorch's and ours, and run
  /// nothing of a plan. Fails with `on` where the system cannot do that; `auto` has a note then.
  llvm::Error enter();
  /// A line where `auto` found no whole sandbox; else empty.
  const std::string &note() const { return missing; }

private:
  RunSandbox() = default;
  bool isWanted = false, isRequired = false;
  std::vector<std::string> files, folders, libraries;
  std::string missing;
  std::unique_ptr<plan::OutputBroker> broker;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUNSANDBOX_H
