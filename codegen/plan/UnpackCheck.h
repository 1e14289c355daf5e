//===- UnpackCheck.h - Whether a payload can be unpacked --------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
#define CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H

#include "llvm/Support/Error.h"
#include <cstdint>

namespace cleave::plan {

/// Fails unless a payload, which must be aligned to 8 bytes, can be unpacked at a cost proportional to its
/// size. Every offset and number must be aligned and within the payload, no two places may refer to the same
/// bytes, tables may nest at most 128 deep, and the unpacked plan may take at most `kMaxUnpackRatio` times
/// the payload's bytes plus a megabyte. `encode` guarantees all of that. A forged payload could refer to one
/// string a million times, or be a million tables of eight bytes.
///
/// Must be called before FlatBuffers' own verifier, which follows a string as often as it is referred to.
llvm::Error checkUnpacking(const uint8_t *payload, uint64_t payloadBytes);

/// Limit of memory per byte of payload. A table without fields has 8 bytes in the file and up to 300 in
/// memory; plans take about 5 bytes of memory per byte.
inline constexpr uint64_t kMaxUnpackRatio = 16;

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
