//===- OutputBroker.h - Another process that writes this one's outputs -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OUTPUTBROKER_H
#define CLEAVE_CODEGEN_PLAN_OUTPUTBROKER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cleave::plan {

/// What a command was told to write, as the command line has it.
struct OutputPaths {
  /// A plan's folder; empty: none.
  std::string plan;
  /// A folder for the IR after each pass, `01-canonicalize.mlir`; empty: none.
  std::string ir;
  std::vector<std::string> files;

  bool empty() const { return plan.empty() && ir.empty() && files.empty(); }
};

/// A process beside one that may not write where its outputs go (sandbox/Sandbox.h). It makes them under
/// temporary names, lends them to the other process, which fills them, and puts them in place when that says
/// so: these paths and no others. What is not in place when the other has ended, or the one that started it,
/// is removed.
///
/// AtomicFile and OutputDirectory ask it where `use` was called, so that whoever writes outputs need not
/// know.
class OutputBroker {
public:
  /// Connects the two, which are started then: `serve` and `use` are called by the process that starts them,
  /// or by two children of it.
  static llvm::Expected<std::unique_ptr<OutputBroker>> create(OutputPaths paths);
  ~OutputBroker();

  /// Starts the process. To be called while this one has one thread.
  llvm::Error serve();
  /// From now on this process' outputs are made there.
  void use();
  /// Lets the process end, which removes what is not in place, and waits for it. Safe in signal handlers.
  void finish();
  /// The same for the one that this process has started, if any.
  static void finishOwn();

  /// The one that makes `path`; null: this process does.
  static OutputBroker *of(llvm::StringRef path);
  /// Makes a folder for IR, there or here, and those that it is in.
  static llvm::Error makeIrFolder(llvm::StringRef path);

  /// An empty file that becomes `path`, open for writing.
  struct File {
    int descriptor, ticket;
  };
  llvm::Expected<File> makeFile(llvm::StringRef path);
  llvm::Error commitFile(int ticket);
  void dropFile(int ticket);
  /// The folder in which the plan is written. It is there from the first call on.
  llvm::Expected<std::string> makePlanFolder();
  llvm::Error commitPlan();

private:
  OutputBroker(OutputPaths paths, int client, int server)
      : paths(std::move(paths)), client(client), server(server) {}
  struct Answer;
  Answer ask(char kind, int ticket = -1, llvm::StringRef path = "");

  const OutputPaths paths;
  // Signal handlers close and wait, whatever this thread or others are doing.
  /// Ends of the connection; -1 once closed.
  std::atomic<int> client, server;
  /// That serves; 0 in all but the one that started it.
  std::atomic<pid_t> process = 0;
  std::string planFolder;
};

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OUTPUTBROKER_H
