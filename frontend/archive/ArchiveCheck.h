//===- ArchiveCheck.h - Whether a model file is intact ----------*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H

#include "frontend/archive/ZipDirectory.h"
#include <functional>

namespace cleave {

/// Tells the system that `size` bytes from `offset` on have been read for now.
using ReleaseBytes = std::function<void(size_t offset, size_t size)>;

/// The records of an archive that torch wrote, every byte of it checked: the directory as readZipDirectory
/// does, stored contents against their CRC32 in pieces that are released again, compressed ones against their
/// CRC32 and against what torch's own compressor makes of them, since a stream has bits that its content does
/// not depend on. Names come without the folder that the writer puts around them. libtorch's exceptions come
/// through.
llvm::Expected<std::vector<ZipRecord>> checkArchive(llvm::ArrayRef<uint8_t> file,
                                                    const ReleaseBytes &release);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_ARCHIVECHECK_H
