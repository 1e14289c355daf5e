//===- OutputDirectory.h - A directory that appears whole or not at all -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OUTPUTDIRECTORY_H
#define CLEAVE_CODEGEN_PLAN_OUTPUTDIRECTORY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave::plan {

/// A directory written under a temporary name beside its final one. `commit` syncs every file and the
/// directory and renames it into place, replacing an older plan there; destroyed without commit, it leaves
/// nothing behind. On SIGINT, SIGTERM and SIGHUP it is removed as well, and what a killed process left behind
/// by the next output to the same folder. Refuses to replace anything that is not a plan directory or empty.
/// Where another process makes outputs (OutputBroker), that one does this.
class OutputDirectory {
public:
  static llvm::Expected<OutputDirectory> create(llvm::StringRef finalPath);
  OutputDirectory(OutputDirectory &&other) noexcept;
  OutputDirectory &operator=(OutputDirectory &&) = delete;
  ~OutputDirectory();

  /// Where to write, until commit.
  const std::string &path() const { return temporary; }
  llvm::Error commit();

private:
  OutputDirectory(std::string temporary, std::string final, bool isLent);
  /// Puts it in the place of what is there, and removes that.
  llvm::Error replace();
  /// Another process made it, and puts it in place.
  bool isLent;
  /// Tells other processes that this one lives; -1: none has to know.
  int lock;
  std::string temporary, final;
};

/// The same for one file: written to a temporary name, synced, renamed.
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef contents);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OUTPUTDIRECTORY_H
