//===- PlanBuilder.h - A small valid plan, and where to put it --*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_PLAN_PLANBUILDER_H
#define CLEAVE_TESTS_UNIT_PLAN_PLANBUILDER_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace cleave::plan {

/// Two stages of one rank each: a linear layer and relu, then an if (both branches a linear layer). Its input
/// is `x : float32[batch, 8]`, its output `y : float32[batch, 4]`. Shard files are described as
/// `writeTwoStagePlan` writes them.
std::unique_ptr<Plan> makeTwoStagePlan();

/// The two stages with the programs of a training step, which are not the derivatives of the forward ones:
/// stage 1 sends a gradient back, stage 0 adds to the sum `grad` and changes its weight by it. The update
/// gives the sum as a second output.
std::unique_ptr<Plan> makeTrainingPlan();
/// The same with a step of AdamW, of states 1 and 2.
std::unique_ptr<Plan> makeOptimizerPlan();

/// The plan's shards and plan.fb in an existing folder; returns the plan as it was written.
std::unique_ptr<Plan> writeTwoStagePlan(llvm::StringRef folder);
std::unique_ptr<Plan> writePlan(llvm::StringRef folder, std::unique_ptr<Plan> plan);

std::unique_ptr<Action> makeAction(ActionKind kind, uint32_t stage, uint32_t microbatch, uint32_t peer = 0);

/// The message of an error; empty for success.
std::string messageOf(llvm::Error error);
template <typename T> std::string messageOf(llvm::Expected<T> value) {
  return value ? std::string() : messageOf(value.takeError());
}

/// A folder of its own for one test, removed with it.
class TestFolder {
public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder &) = delete;
  TestFolder &operator=(const TestFolder &) = delete;
  const std::string &path() const { return folder; }
  std::string at(llvm::StringRef name) const;
  /// Names of what the folder holds, sorted.
  std::vector<std::string> names() const;

private:
  std::string folder;
};

void writeFile(llvm::StringRef path, llvm::StringRef contents);
std::string readFile(llvm::StringRef path);

} // namespace cleave::plan

#endif // CLEAVE_TESTS_UNIT_PLAN_PLANBUILDER_H
