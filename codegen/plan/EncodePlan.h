//===- EncodePlan.h - The bytes of plan.fb ----------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H
#define CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <vector>

namespace cleave::plan {

/// Serializes a valid plan to the contents of plan.fb (layout: PlanFile.h). Equal plans give equal bytes.
std::vector<uint8_t> encode(const Plan &plan);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_ENCODEPLAN_H
