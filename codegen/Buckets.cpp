//===- Buckets.cpp - Which ranks sum which gradients ----------------------===//
#include "codegen/Buckets.h"
#include "codegen/plan/Groups.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

uint32_t StepSums::ownerOf(const std::string &name, uint32_t stage) const {
  for (uint32_t other : byName.at(name).stages)
    if (other % pipelineRanks == stage % pipelineRanks)
      return other;
  return stage;
}

const std::string &StepSums::stateOf(const std::string &name, uint32_t stage) const {
  return states.at({name, ownerOf(name, stage)});
}

void StepSums::nameStates(std::set<std::string> taken) {
  for (const auto &[name, sum] : byName)
    taken.insert(name);
  for (const auto &[name, sum] : byName)
    for (uint32_t stage : sum.stages) {
      if (ownerOf(name, stage) != stage)
        continue;
      const bool isTied =
          llvm::any_of(sum.stages, [&](uint32_t other) { return ownerOf(name, other) != stage; });
      std::string own = isTied ? name + "@" + std::to_string(stage) : name;
      while (isTied && !taken.insert(own).second)
        own = "train." + own;
      states[{name, stage}] = own;
    }
}

static std::unique_ptr<plan::BucketPart> partOf(uint32_t stage) {
  auto part = std::make_unique<plan::BucketPart>();
  part->stage = stage;
  return part;
}

/// Adds a bucket of several stages, and the groups of their ranks.
static void addTie(plan::Plan &plan, std::unique_ptr<plan::Bucket> tie) {
  llvm::sort(tie->parts, [&](const auto &a, const auto &b) {
    return plan.stages[a->stage]->ranks < plan.stages[b->stage]->ranks;
  });
  for (uint32_t position = 0; position < plan::ranksPerDeviceGroup(plan); ++position) {
    auto group = std::make_unique<plan::Group>();
    group->kind = plan::GroupKind::Tied;
    for (const auto &part : tie->parts)
      group->ranks.push_back(plan.stages[part->stage]->ranks[position]);
    auto known = llvm::find_if(plan.groups, [&](const auto &each) {
      return each->kind == plan::GroupKind::Tied && each->ranks == group->ranks;
    });
    tie->groups.push_back(known - plan.groups.begin());
    if (known == plan.groups.end())
      plan.groups.push_back(std::move(group));
  }
  plan.buckets.push_back(std::move(tie));
}

/// Adds a bucket of one stage; none if there is one data-parallel rank.
static void addSums(plan::Plan &plan, std::unique_ptr<plan::Bucket> bucket) {
  const auto &ranks = plan.stages[bucket->parts[0]->stage]->ranks;
  for (auto [index, group] : llvm::enumerate(plan.groups))
    if (group->kind == plan::GroupKind::Data && llvm::is_contained(ranks, group->ranks.front()))
      bucket->groups.push_back(index);
  if (!bucket->groups.empty())
    plan.buckets.push_back(std::move(bucket));
}

void addBuckets(plan::Plan &plan, const StepSums &sums) {
  auto indexOf = [&](const std::string &name) -> uint32_t {
    return llvm::find_if(plan.states, [&](const auto &state) { return state->name == name; }) -
           plan.states.begin();
  };
  std::map<uint32_t, std::unique_ptr<plan::Bucket>> ofStages;
  for (const auto &[name, sum] : sums.byName) {
    auto tie = std::make_unique<plan::Bucket>();
    tie->kind = plan::GroupKind::Tied;
    for (uint32_t stage : sum.stages) {
      if (sums.ownerOf(name, stage) != stage)
        continue;
      const uint32_t state = indexOf(sums.stateOf(name, stage));
      tie->parts.push_back(partOf(stage));
      tie->parts.back()->states = {state};
      // Data-parallel ranks have the same already.
      if (sum.isOfNorm)
        continue;
      std::unique_ptr<plan::Bucket> &own = ofStages[stage];
      if (!own) {
        own = std::make_unique<plan::Bucket>();
        own->kind = plan::GroupKind::Data;
        own->parts.push_back(partOf(stage));
      }
      own->parts[0]->states.push_back(state);
    }
    if (tie->parts.size() > 1)
      addTie(plan, std::move(tie));
  }
  for (auto &[stage, bucket] : ofStages)
    addSums(plan, std::move(bucket));
}

} // namespace cleave
