//===- InputFile.h - An untrusted input file --------------------*- C++ -*-===//
//
// A file is opened once. Its kind, length, checksum and contents all come from that one descriptor, so a file
// that replaces it meanwhile is never read.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_INPUTFILE_H
#define CLEAVE_CODEGEN_PLAN_FILES_INPUTFILE_H

#include "codegen/plan/files/Checksum.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorOr.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cstdint>
#include <memory>
#include <string>

namespace cleave::plan {

/// A memory-mapped file, private to this process and writable (copy on write). Pages that are never read are
/// never loaded. If the file is truncated, reading the lost pages raises SIGBUS.
class MappedFile {
public:
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  uint8_t *data() const { return base; }
  llvm::ArrayRef<uint8_t> bytes() const { return {base, length}; }
  /// Drops the pages of [offset, offset+size), which must not have been written, until they are read again.
  void release(size_t offset, size_t size) const;

private:
  friend class InputFile;
  MappedFile(llvm::StringRef path, uint8_t *base, size_t length);

  uint8_t *const base;
  const size_t length;
};

/// Path of the mapped file that contains `address`; null if none does. Safe in signal handlers.
const char *mappedFileAt(const void *address);

/// A regular file opened for reading.
class InputFile {
public:
  /// `invalid_argument` if the path is no regular file; such a path never blocks.
  static llvm::ErrorOr<InputFile> open(llvm::StringRef path);
  InputFile(InputFile &&other) : path(std::move(other.path)), handle(other.handle), length(other.length) {
    other.handle = -1;
  }
  ~InputFile();

  const std::string &name() const { return path; }
  /// Length when the file was opened.
  uint64_t bytes() const { return length; }
  /// Digest of the first `bytes()` bytes, without keeping pages resident. Fails if the file has become
  /// shorter.
  llvm::ErrorOr<Digest> digest() const;
  /// A copy of the content, which later changes of the file do not affect. Fails if the file has become
  /// shorter.
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> read() const;
  /// Maps the file; it must not be empty.
  llvm::ErrorOr<std::shared_ptr<MappedFile>> map() const;

private:
  InputFile(llvm::StringRef path, int handle) : path(path), handle(handle) {}
  /// Fills `piece` with the bytes from `offset` on.
  std::error_code readAt(llvm::MutableArrayRef<char> piece, uint64_t offset) const;

  std::string path;
  int handle;
  uint64_t length = 0;
};

/// Text of an InputFile's error: `it is no regular file`, `Permission denied`, `it became shorter while it
/// was read`.
std::string describeInputError(std::error_code error);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_INPUTFILE_H
