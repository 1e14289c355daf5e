//===- Checksum.h - BLAKE3 of bytes and files -------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_CHECKSUM_H
#define CLEAVE_CODEGEN_PLAN_CHECKSUM_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <string>

namespace cleave::plan {

/// A BLAKE3 digest.
using Digest = std::array<uint8_t, 32>;

Digest checksum(llvm::ArrayRef<uint8_t> bytes);

/// Reads the file in pieces; its pages are not kept resident. Fails when it cannot be read.
llvm::Expected<Digest> checksumOfFile(llvm::StringRef path);

/// 64 lower-case hexadecimal digits.
std::string toHex(const Digest &digest);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_CHECKSUM_H
