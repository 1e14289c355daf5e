//===- UnpackedSize.h - What a FlatBuffer would grow to ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_UNPACKEDSIZE_H
#define CLEAVE_CODEGEN_PLAN_UNPACKEDSIZE_H

#include <cstdint>

namespace cleave::plan {

/// Whether no two places of a verified payload refer to the same bytes, so that unpacking copies no more than
/// `payloadBytes`. `encode` never shares; a forged payload may refer to one string a million times.
bool isUnpackedOnce(const uint8_t *payload, uint64_t payloadBytes);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_UNPACKEDSIZE_H
