//===- PlanHeader.h - The first 64 bytes of plan.fb -------------*- C++ -*-===//
//
// Offsets of the header's fields in bytes. EncodePlan.cpp writes the header, PlanFile.cpp checks it, and
// PlanFile.h shows its layout.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLANHEADER_H
#define CLEAVE_CODEGEN_PLAN_PLANHEADER_H

#include <cstddef>

namespace cleave::plan {

inline constexpr size_t kVersionAt = 8, kPayloadBytesAt = 16, kDigestAt = 32, kHeaderBytes = 64;

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PLANHEADER_H
