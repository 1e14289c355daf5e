//===- ZipDirectory.h - The records of a zip archive ------------*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_ZIPDIRECTORY_H
#define CLEAVE_FRONTEND_ARCHIVE_ZIPDIRECTORY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// A file inside an archive.
struct ZipRecord {
  std::string name;
  uint32_t crc;
  bool isCompressed;
  /// Bytes of its content.
  uint64_t size;
  /// Where its bytes, compressed or not, lie in the archive.
  uint64_t offset, storedSize;
};

/// Reads the directory of `file`, untrusted bytes. Whatever is not a record's content must be what a writer
/// would have made of the directory: end records, local headers, padding and data descriptors agree with it
/// in every field, and records follow one another without a gap from the first byte on. So no bit outside the
/// contents can be another one. Contents are not looked at. Errors say what was found, for a caller who knows
/// the file's name.
llvm::Expected<std::vector<ZipRecord>> readZipDirectory(llvm::ArrayRef<uint8_t> file);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_ZIPDIRECTORY_H
