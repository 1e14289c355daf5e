//===- PlanName.h - Names of a plan's files ---------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_PLANNAME_H
#define CLEAVE_CODEGEN_PLAN_FILES_PLANNAME_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace cleave::plan {

inline constexpr char kPlanFileName[] = "plan.fb";
/// The first bytes of a plan.fb.
inline constexpr uint8_t kPlanMagic[8] = {'C', 'L', 'E', 'A', 'V', 'E', '\r', '\n'};

/// `rank-000.safetensors`.
std::string shardFileName(uint32_t rank);
/// True if a plan's folder has files of this name: `plan.fb`, or a shard file.
bool isPlanFileName(llvm::StringRef name);
/// True if the file begins like a `plan.fb`.
bool beginsLikePlan(llvm::StringRef path);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_PLANNAME_H
