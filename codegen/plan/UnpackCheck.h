//===- UnpackCheck.h - What FlatBuffers' verifier leaves open ----*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
#define CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H

#include <cstdint>

namespace cleave::plan {

/// Whether a verified payload, which stands at a multiple of 8, can be unpacked: no two places of it refer to
/// the same bytes, so that unpacking copies no more than `payloadBytes`, and every number of a vector stands
/// at its alignment. `encode` sees to both; a forged payload may refer to one string a million times.
bool canUnpack(const uint8_t *payload, uint64_t payloadBytes);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_UNPACKCHECK_H
