//===- Checksum.h - BLAKE3 of bytes ----------------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_CHECKSUM_H
#define CLEAVE_CODEGEN_PLAN_FILES_CHECKSUM_H

#include "llvm/ADT/ArrayRef.h"
#include <array>
#include <cstdint>
#include <string>

namespace cleave::plan {

/// A BLAKE3 digest.
using Digest = std::array<uint8_t, 32>;

Digest checksum(llvm::ArrayRef<uint8_t> bytes);

/// 64 lower-case hexadecimal digits.
std::string toHex(const Digest &digest);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_CHECKSUM_H
