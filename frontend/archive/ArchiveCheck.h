//===- ArchiveCheck.h - Integrity check of a model file ---------*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H

#include "frontend/archive/ZipDirectory.h"
#include <functional>

namespace cleave {

/// Tells the system that `size` bytes from `offset` on are not needed for now.
using ReleaseBytes = std::function<void(size_t offset, size_t size)>;

/// The records of an archive written by torch, after a check of every byte. readZipDirectory checks the
/// directory. Stored contents are compared with their CRC32 piece by piece, and pieces are released again.
/// Compressed contents are compared with their CRC32 and with the output of torch's own compressor, since a
/// compressed stream has bits that do not affect its content. Names come without the writer's top folder. May
/// throw libtorch's exceptions.
llvm::Expected<std::vector<ZipRecord>> checkArchive(llvm::ArrayRef<uint8_t> file,
                                                    const ReleaseBytes &release);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H
