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
  /// Bytes of its content, uncompressed.
  uint64_t size;
  /// Where its stored bytes are in the archive.
  uint64_t offset, storedSize;
};

/// Reads the directory of `file`, which is untrusted. All bytes that are no record's content must be what a
/// writer would have written: end records, local headers, padding and data descriptors agree with the
/// directory in every field, and records follow one another without gaps from the first byte on. So no bit
/// outside the contents can change unnoticed. Contents are not checked. Errors say what was found, without
/// the file's name.
llvm::Expected<std::vector<ZipRecord>> readZipDirectory(llvm::ArrayRef<uint8_t> file);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_ZIPDIRECTORY_H
