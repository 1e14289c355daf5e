//===- Checksum.cpp - BLAKE3 of bytes -------------------------------------===//
#include "codegen/plan/files/Checksum.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

namespace cleave::plan {

Digest checksum(llvm::ArrayRef<uint8_t> bytes) { return llvm::BLAKE3::hash(bytes); }

std::string toHex(const Digest &digest) { return llvm::toHex(digest, /*LowerCase=*/true); }

} // namespace cleave::plan
