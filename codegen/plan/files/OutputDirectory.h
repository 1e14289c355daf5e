//===- OutputDirectory.h - A directory that appears whole or not at all -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_OUTPUTDIRECTORY_H
#define CLEAVE_CODEGEN_PLAN_FILES_OUTPUTDIRECTORY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace cleave::plan {

/// A directory written under a temporary name beside its final one. `commit` syncs every file and the
/// directory, and renames it into place, replacing an older plan; if destroyed without commit, it leaves
/// nothing behind. SIGINT, SIGTERM and SIGHUP remove it, too; what a killed process left behind is removed by
/// the next output to the same folder. Refuses to replace anything but a plan directory or an empty one. If
/// this process has an OutputBroker, the broker creates and commits the directory.
class OutputDirectory {
public:
  static llvm::Expected<OutputDirectory> create(llvm::StringRef finalPath);
  OutputDirectory(OutputDirectory &&other) noexcept;
  OutputDirectory &operator=(OutputDirectory &&) = delete;
  ~OutputDirectory();

  /// Where to write until commit.
  const std::string &path() const { return temporary; }
  llvm::Error commit();

private:
  OutputDirectory(std::string temporary, std::string final, bool isBrokered);
  /// Exchanges it with the old directory, and removes that.
  llvm::Error replace();
  /// True if the output broker created and commits it.
  bool isBrokered;
  /// Lock that tells other processes that this one is alive; -1 if not needed.
  int lock;
  std::string temporary, final;
};

/// Writes one file in the same way: to a temporary name, synced, renamed.
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef contents);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_OUTPUTDIRECTORY_H
