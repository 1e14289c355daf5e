//===- InputFile.h - A file that somebody else wrote ------------*- C++ -*-===//
//
// A file is opened once. Its kind, its length, its checksum and its contents all come from that one handle,
// so that another file that takes its name meanwhile is never read.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_INPUTFILE_H
#define CLEAVE_CODEGEN_PLAN_INPUTFILE_H

#include "codegen/plan/Checksum.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstdint>
#include <memory>
#include <string>

namespace cleave::plan {

/// A whole file in memory, private to this process and writable (copy on write): pages that nobody reads are
/// never loaded. Whoever truncates the file takes pages away, and reading those is a SIGBUS.
class MappedFile {
public:
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  uint8_t *data() const { return base; }
  llvm::ArrayRef<uint8_t> bytes() const { return {base, length}; }
  /// Forgets the pages of [offset, offset+size), which nobody has written to, until they are read again.
  void release(size_t offset, size_t size) const;

private:
  friend class InputFile;
  MappedFile(llvm::StringRef path, uint8_t *base, size_t length);

  uint8_t *const base;
  const size_t length;
};

/// The path of the mapped file that `address` is in; null where it is in none. Safe in signal handlers.
const char *mappedFileAt(const void *address);

/// A regular file that is open for reading.
class InputFile {
public:
  /// `invalid_argument` for what is there and is no regular file, which is never waited for.
  static llvm::ErrorOr<InputFile> open(llvm::StringRef path);
  InputFile(InputFile &&other) : path(std::move(other.path)), handle(other.handle), length(other.length) {
    other.handle = -1;
  }
  ~InputFile();

  const std::string &name() const { return path; }
  /// When it was opened.
  uint64_t bytes() const { return length; }
  /// Of its `bytes`. Fails where it has become shorter. Its pages are not kept resident.
  llvm::ErrorOr<Digest> digest() const;
  /// A copy, which nobody can change any more. Fails where the file has become shorter.
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> read() const;
  /// Not of an empty file.
  llvm::ErrorOr<std::shared_ptr<MappedFile>> map() const;

private:
  InputFile(llvm::StringRef path, int handle) : path(path), handle(handle) {}
  /// Fills `piece` with what is at `offset`.
  std::error_code readAt(llvm::MutableArrayRef<char> piece, uint64_t offset) const;

  std::string path;
  int handle;
  uint64_t length = 0;
};

/// What an InputFile's error says: `it is no regular file`, `Permission denied`, `it became shorter while it
/// was read`.
std::string describeInputError(std::error_code error);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_INPUTFILE_H
