//===- Groups.h - Groups of ranks -------------------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_GROUPS_H
#define CLEAVE_CODEGEN_PLAN_GROUPS_H

#include "codegen/plan/Plan.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cleave::plan {

/// Number of ranks of the mesh.
uint32_t rankCount(const Mesh &mesh);

/// Coordinates of a rank in the mesh: its tensor-parallel and its data-parallel rank.
uint32_t tpRankOf(const Plan &plan, uint32_t rank);
uint32_t dpRankOf(const Plan &plan, uint32_t rank);

/// Number of ranks that share their stages: the data-parallel and tensor-parallel ranks of a pipeline rank.
uint32_t ranksPerDeviceGroup(const Plan &plan);

/// The pipeline rank of a stage.
uint32_t pipelineRankOf(const Plan &plan, uint32_t stage);

/// The groups of the axes Tensor and Data of a mesh, as Plan.groups has them: those of Tensor first, each
/// axis by its first rank. An axis of one rank has none.
std::vector<std::unique_ptr<Group>> groupsOf(const Mesh &mesh);

/// The group of the kind Tensor or Data that `rank` is in; nothing if it would be alone there.
std::optional<uint32_t> groupOf(const Plan &plan, uint32_t rank, GroupKind kind);

/// The group of `rank` among those that a bucket sums over, and the part of its stage; nothing if the rank
/// takes no part.
std::optional<uint32_t> groupOf(const Plan &plan, uint32_t rank, const Bucket &bucket);
const BucketPart *partOf(const Bucket &bucket, uint32_t stage);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_GROUPS_H
