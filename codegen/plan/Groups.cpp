//===- Groups.cpp - Groups of ranks ---------------------------------------===//
#include "codegen/plan/Groups.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::plan {

uint32_t rankCount(const Mesh &mesh) { return mesh.pp * mesh.dp * mesh.tp; }

uint32_t tpRankOf(const Plan &plan, uint32_t rank) { return rank % plan.mesh->tp; }

uint32_t dpRankOf(const Plan &plan, uint32_t rank) { return rank / plan.mesh->tp % plan.mesh->dp; }

uint32_t ranksPerDeviceGroup(const Plan &plan) { return plan.mesh->dp * plan.mesh->tp; }

uint32_t pipelineRankOf(const Plan &plan, uint32_t stage) {
  return plan.stages[stage]->ranks.front() / ranksPerDeviceGroup(plan);
}

std::vector<std::unique_ptr<Group>> groupsOf(const Mesh &mesh) {
  std::vector<std::unique_ptr<Group>> groups;
  auto add = [&](GroupKind kind, uint32_t first, uint32_t size, uint32_t step) {
    auto group = std::make_unique<Group>();
    group->kind = kind;
    for (uint32_t index = 0; index < size; ++index)
      group->ranks.push_back(first + index * step);
    groups.push_back(std::move(group));
  };
  for (uint32_t first = 0; mesh.tp > 1 && first < rankCount(mesh); first += mesh.tp)
    add(GroupKind::Tensor, first, mesh.tp, 1);
  for (uint32_t rank = 0; mesh.dp > 1 && rank < rankCount(mesh); ++rank)
    if (rank % (mesh.dp * mesh.tp) < mesh.tp)
      add(GroupKind::Data, rank, mesh.dp, mesh.tp);
  return groups;
}

std::optional<uint32_t> groupOf(const Plan &plan, uint32_t rank, GroupKind kind) {
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (group->kind == kind && llvm::is_contained(group->ranks, rank))
      return index;
  return std::nullopt;
}

std::optional<uint32_t> groupOf(const Plan &plan, uint32_t rank, const Bucket &bucket) {
  for (uint32_t index : bucket.groups)
    if (llvm::is_contained(plan.groups[index]->ranks, rank))
      return index;
  return std::nullopt;
}

const BucketPart *partOf(const Bucket &bucket, uint32_t stage) {
  auto found = llvm::find_if(bucket.parts, [&](const auto &part) { return part->stage == stage; });
  return found == bucket.parts.end() ? nullptr : found->get();
}

} // namespace cleave::plan
