//===- OutputBroker.h - Creates the output files of another process -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_OUTPUTBROKER_H
#define CLEAVE_CODEGEN_PLAN_FILES_OUTPUTBROKER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cleave::plan {

/// Outputs of a command, as given on its command line.
struct OutputPaths {
  /// Folder of the plan; empty if there is none.
  std::string plan;
  /// Folder for the IR after each pass, such as `01-canonicalize.mlir`; empty if there is none.
  std::string ir;
  std::vector<std::string> files;

  bool empty() const { return plan.empty() && ir.empty() && files.empty(); }
};

/// A process that creates the output files of another one, which is sandboxed and may not write where they go
/// (sandbox/Sandbox.h). It creates them under temporary names, passes their descriptors to the sandboxed
/// process, which fills them, and commits them (renames them into place) on its request: these paths and no
/// others. It removes outputs that are not committed when the sandboxed process, or the one that started it,
/// has ended.
///
/// After `use`, AtomicFile and OutputDirectory call the broker, so code that writes outputs need not know of
/// it.
class OutputBroker {
public:
  /// Makes the connection. `startProcess` and `use` may then be called in this process or in a child of it.
  static llvm::Expected<std::unique_ptr<OutputBroker>> create(OutputPaths paths);
  ~OutputBroker();

  /// Forks the broker process. Must be called while this process has a single thread.
  llvm::Error startProcess();
  /// From now on, the broker creates and commits the outputs of this process.
  void use();
  /// Lets the broker process end, which removes unfinished outputs, and waits for it. Safe in signal
  /// handlers.
  void finish();
  /// `finish` for the broker that this process has started, if any.
  static void finishOwn();

  /// The broker that creates and commits `path`; null if this process does.
  static OutputBroker *of(llvm::StringRef path);
  /// Makes a folder for IR and its parents, in the broker or in this process.
  static llvm::Error makeIrFolder(llvm::StringRef path);

  /// A new file, open for writing, that becomes `path` on commit.
  struct File {
    int descriptor, ticket;
  };
  llvm::Expected<File> makeFile(llvm::StringRef path);
  llvm::Error commitFile(int ticket);
  void dropFile(int ticket);
  /// The folder to write the plan in; made by the first call.
  llvm::Expected<std::string> makePlanFolder();
  llvm::Error commitPlan();

private:
  OutputBroker(OutputPaths paths, int client, int server)
      : paths(std::move(paths)), client(client), server(server) {}
  struct Answer;
  Answer ask(char kind, int ticket = -1, llvm::StringRef path = "");

  const OutputPaths paths;
  // Atomic because signal handlers close and wait, whatever threads are doing.
  /// The two ends of the connection; -1 once closed.
  std::atomic<int> client, server;
  /// The broker process; 0 except in the process that started it.
  std::atomic<pid_t> process = 0;
  std::string planFolder;
};

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_OUTPUTBROKER_H
