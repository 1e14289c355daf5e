//===- LaunchTest.cpp - What environments say of a process ----------------===//
#include "runtime/base/Launch.h"
#include <gmock/gmock.h>
#include <map>

namespace cleave::runtime {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

static llvm::Expected<std::optional<Launch>> read(const Variables &variables) {
  return readLaunch([&](llvm::StringRef name) -> std::optional<std::string> {
    auto found = variables.find(name.str());
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

static Launch launchOf(const Variables &variables) {
  auto launch = read(variables);
  if (!launch) {
    ADD_FAILURE() << llvm::toString(launch.takeError());
    return {};
  }
  EXPECT_TRUE(*launch);
  return launch->value_or(Launch());
}

static std::string problemOf(const Variables &variables) {
  auto launch = read(variables);
  return launch ? "" : llvm::toString(launch.takeError());
}

TEST(LaunchTest, IsNothingForAProcessAlone) {
  EXPECT_FALSE(cantFail(read({})));
  EXPECT_FALSE(cantFail(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}})));
  // A batch script, which starts steps and is none.
  EXPECT_FALSE(cantFail(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}})));
}

TEST(LaunchTest, ReadsTorchruns) {
  const Launch launch = launchOf({{"RANK", "3"},
                                  {"WORLD_SIZE", "4"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"LOCAL_RANK", "1"},
                                  {"MASTER_ADDR", "head"},
                                  {"MASTER_PORT", "29500"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"TORCHELASTIC_RUN_ID", "run"},
                                  {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(launch.rank, 3u);
  EXPECT_EQ(launch.size, 4u);
  EXPECT_EQ(launch.localSize, 2u);
  EXPECT_EQ(launch.localRank, 1u);
  EXPECT_EQ(launch.address, "head");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_TRUE(launch.agentHoldsStore);
  EXPECT_EQ(launch.prefix, "cleave/run/1");
}

TEST(LaunchTest, MeetsWhereSlurmsStepBegins) {
  Variables step = {
      {"SLURM_PROCID", "1"},    {"SLURM_STEP_NUM_TASKS", "6"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
      {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"},        {"SLURM_STEP_NODELIST", "node[07-09]"}};
  const Launch launch = launchOf(step);
  EXPECT_EQ(launch.address, "node07");
  EXPECT_FALSE(launch.localRank);
  EXPECT_EQ(launch.localSize, 2u);
  EXPECT_GE(launch.port, 20000);
  EXPECT_LT(launch.port, 30000);
  step["SLURM_PROCID"] = "5";
  EXPECT_EQ(launchOf(step).port, launch.port);
  step["SLURM_LOCALID"] = "0";
  EXPECT_EQ(launchOf(step).localRank, 0u);
  for (const char *odd : {"", "first", "-1"}) {
    step["SLURM_LOCALID"] = odd;
    EXPECT_FALSE(launchOf(step).localRank) << odd;
  }
  step["SLURM_STEP_ID"] = "1";
  EXPECT_NE(launchOf(step).port, launch.port);
  EXPECT_NE(launchOf(step).prefix, launch.prefix);
}

TEST(LaunchTest, SaysWhatIsMissing) {
  EXPECT_THAT(problemOf({{"WORLD_SIZE", "2"}}),
              HasSubstr("WORLD_SIZE is set, as by torchrun, but RANK is not"));
  const Variables mpi = {
      {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THAT(problemOf(mpi), HasSubstr("but MASTER_ADDR is not; pass mpirun -x MASTER_ADDR"));
  EXPECT_THAT(problemOf({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
              HasSubstr("found 4, expected less than WORLD_SIZE"));
}

/// Who has started them by hand has not said that all are here.
TEST(LaunchTest, WantsAnAddressWhereItIsNotKnownWhoIsOnThisMachine) {
  EXPECT_THAT(problemOf({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}),
              HasSubstr("but MASTER_ADDR is not"));
}

TEST(LaunchTest, FindsTheFirstHost) {
  EXPECT_EQ(firstHost("one"), "one");
  EXPECT_EQ(firstHost("one,two[1-3]"), "one");
  EXPECT_EQ(firstHost("node[003-005,9],other"), "node003");
  EXPECT_EQ(firstHost("node[12,14]-ib0,other"), "node12-ib0");
  EXPECT_EQ(firstHost("node["), "");
}

} // namespace cleave::runtime
