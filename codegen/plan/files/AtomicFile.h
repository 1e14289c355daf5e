//===- AtomicFile.h - A file that appears whole or not at all ---*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_ATOMICFILE_H
#define CLEAVE_CODEGEN_PLAN_FILES_ATOMICFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace cleave::plan {

/// A file written under a temporary name beside its final one. `commit` syncs it and renames it into place,
/// replacing an older file; if destroyed without commit, it leaves nothing behind. Refuses to replace
/// anything but a regular file. If this process has an OutputBroker, the broker creates and commits the file.
class AtomicFile {
public:
  static llvm::Expected<AtomicFile> create(llvm::StringRef finalPath);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  llvm::Error write(llvm::ArrayRef<uint8_t> bytes);
  llvm::Error commit();
  /// Descriptor of the file under its temporary name, open for writing.
  int descriptor() const { return file; }

private:
  AtomicFile(int file, std::string temporary, std::string final, int ticket = -1);
  int file;
  /// Id of the file in the broker; -1 if this process created it.
  int ticket;
  /// Empty once there is nothing left to remove.
  std::string temporary;
  std::string final;
};

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_ATOMICFILE_H
