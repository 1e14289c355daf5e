//===- GroupsTest.cpp -----------------------------------------------------===//
#include "codegen/plan/Groups.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <gtest/gtest.h>

namespace cleave::plan {

using Ranks = std::vector<uint32_t>;

static std::vector<std::pair<GroupKind, Ranks>> groupsOf(uint32_t pp, uint32_t dp, uint32_t tp) {
  Mesh mesh;
  mesh.pp = pp;
  mesh.dp = dp;
  mesh.tp = tp;
  std::vector<std::pair<GroupKind, Ranks>> groups;
  for (const auto &group : groupsOf(mesh))
    groups.emplace_back(group->kind, group->ranks);
  return groups;
}

TEST(Groups, FollowTheAxesOfTheMesh) {
  EXPECT_TRUE(groupsOf(4, 1, 1).empty());
  EXPECT_EQ(groupsOf(2, 1, 2), (std::vector<std::pair<GroupKind, Ranks>>{{GroupKind::Tensor, {0, 1}},
                                                                         {GroupKind::Tensor, {2, 3}}}));
  EXPECT_EQ(groupsOf(1, 3, 1), (std::vector<std::pair<GroupKind, Ranks>>{{GroupKind::Data, {0, 1, 2}}}));
  // Rank = (pipeline rank * 2 + data-parallel rank) * 2 + tensor-parallel rank.
  EXPECT_EQ(groupsOf(2, 2, 2), (std::vector<std::pair<GroupKind, Ranks>>{{GroupKind::Tensor, {0, 1}},
                                                                         {GroupKind::Tensor, {2, 3}},
                                                                         {GroupKind::Tensor, {4, 5}},
                                                                         {GroupKind::Tensor, {6, 7}},
                                                                         {GroupKind::Data, {0, 2}},
                                                                         {GroupKind::Data, {1, 3}},
                                                                         {GroupKind::Data, {4, 6}},
                                                                         {GroupKind::Data, {5, 7}}}));
}

TEST(Groups, EachRankIsInOneOfAnAxis) {
  auto plan = makeTwoStagePlan();
  plan->mesh->dp = 3;
  plan->mesh->tp = 2;
  plan->groups = groupsOf(*plan->mesh);
  for (uint32_t rank = 0; rank < rankCount(*plan->mesh); ++rank) {
    const Ranks &tensor = plan->groups[*groupOf(*plan, rank, GroupKind::Tensor)]->ranks,
                &data = plan->groups[*groupOf(*plan, rank, GroupKind::Data)]->ranks;
    EXPECT_EQ(tensor[tpRankOf(*plan, rank)], rank);
    EXPECT_EQ(data[dpRankOf(*plan, rank)], rank);
  }
  plan->mesh->dp = plan->mesh->tp = 1;
  plan->groups = groupsOf(*plan->mesh);
  EXPECT_FALSE(groupOf(*plan, 0, GroupKind::Tensor));
}

} // namespace cleave::plan
