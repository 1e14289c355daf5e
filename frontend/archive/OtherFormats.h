//===- OtherFormats.h - Model files that are no TorchScript -----*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_OTHERFORMATS_H
#define CLEAVE_FRONTEND_ARCHIVE_OTHERFORMATS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave {

/// Says of a file in another known format what it is, and what to do: `is a torch.export archive (.pt2), …`.
/// Nothing for TorchScript and for unknown or damaged files. The file is untrusted.
/// \param path  of the file; its extension tells Python source, which has no other mark.
std::optional<std::string> describeOtherFormat(llvm::StringRef path, llvm::ArrayRef<uint8_t> file);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_OTHERFORMATS_H
