//===- Checksum.cpp - BLAKE3 of bytes and files ---------------------------===//
#include "codegen/plan/Checksum.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include <vector>

namespace cleave::plan {

using llvm::Expected;
using llvm::StringRef;

static constexpr size_t kPieceBytes = 1 << 20;

static llvm::Error cannotRead(StringRef path, llvm::Error cause) {
  return llvm::createStringError("cannot read '" + path + "': " + toString(std::move(cause)));
}

Digest checksum(llvm::ArrayRef<uint8_t> bytes) { return llvm::BLAKE3::hash(bytes); }

Expected<Digest> checksumOfFile(StringRef path) {
  auto file = llvm::sys::fs::openNativeFileForRead(path);
  if (!file)
    return cannotRead(path, file.takeError());
  auto close = llvm::make_scope_exit([&] { llvm::sys::fs::closeFile(*file); });
  llvm::BLAKE3 hasher;
  std::vector<char> piece(kPieceBytes);
  while (true) {
    Expected<size_t> got = llvm::sys::fs::readNativeFile(*file, piece);
    if (!got)
      return cannotRead(path, got.takeError());
    if (*got == 0)
      return hasher.final();
    hasher.update(StringRef(piece.data(), *got));
  }
}

std::string toHex(const Digest &digest) { return llvm::toHex(digest, /*LowerCase=*/true); }

} // namespace cleave::plan
