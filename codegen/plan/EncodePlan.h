//===- EncodePlan.h - The bytes of plan.fb ----------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H
#define CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <vector>

namespace cleave::plan {

/// The bytes of plan.fb (PlanFile.h) for a valid plan. Equal plans give equal bytes.
std::vector<uint8_t> encode(const Plan &plan);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H
