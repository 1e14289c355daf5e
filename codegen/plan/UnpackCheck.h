//===- UnpackCheck.h - Whether a payload can be unpacked --------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
#define CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H

#include "llvm/Support/Error.h"
#include <cstdint>

namespace cleave::plan {

/// Fails unless a payload, which stands at a multiple of 8, can be unpacked at a cost in proportion to its
/// size: every offset and number lies within it and at its alignment, no two places refer to the same bytes,
/// tables nest at most 128 deep, and what unpacking makes of it takes at most `kMostMemory` times its bytes
/// and a megabyte. `encode` sees to all of that; a forged payload may refer to one string a million times, or
/// be a million tables of eight bytes.
///
/// To be called before FlatBuffers' own verifier, which follows a string as often as it is referred to.
llvm::Error checkUnpacking(const uint8_t *payload, uint64_t payloadBytes);

/// A table without fields has 8 bytes in the file and up to 300 in memory; plans have about 5 for each of
/// their bytes.
inline constexpr uint64_t kMostMemory = 16;

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
