//===- PlanHeader.h - The first 64 bytes of plan.fb -------------*- C++ -*-===//
//
// Their offsets, for PlanFile.cpp, which reads them, and EncodePlan.cpp, which writes them. PlanFile.h draws
// them.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_PLANHEADER_H
#define CLEAVE_CODEGEN_PLAN_PLANHEADER_H

#include <cstddef>

namespace cleave::plan {

inline constexpr size_t kVersionAt = 8, kPayloadBytesAt = 16, kDigestAt = 32, kHeaderBytes = 64;

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_PLANHEADER_H
