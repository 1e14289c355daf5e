//===- ProgramTest.cpp - The exit status and streams of `cleave` ----------===//
#include "llvm/Support/Program.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tests/unit/tools/RunCleave.h"
#include "llvm/Support/JSON.h"
#include <gtest/gtest.h>

namespace cleave {

using namespace plan;

TEST(Program, InspectsAPlan) {
  TestFolder folder;
  writeTwoStagePlan(folder.path());
  Outcome text = runCleave({"inspect", folder.path()});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("predicted ms"), std::string::npos) << text.out;
  Outcome json = runCleave({"inspect", folder.path(), "--json"});
  EXPECT_EQ(json.status, 0) << json.err;
  EXPECT_TRUE(static_cast<bool>(llvm::json::parse(json.out))) << json.out;
  EXPECT_EQ(json.out, runCleave({"inspect", "--format", "json", folder.path()}).out);
  EXPECT_EQ(runCleave({"inspect", "--format", "html", folder.path()}).out.rfind("<!doctype html>", 0), 0u);
  EXPECT_EQ(runCleave({"inspect", "--format", "dot", folder.path()}).out.rfind("//", 0), 0u);
}

TEST(Program, FailsWithOneErrorAndStatus1) {
  TestFolder folder;
  writeFile(folder.at("plan.fb"), "no plan");
  Outcome outcome = runCleave({"inspect", folder.path()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "error: " + folder.at("plan.fb") +
                             ": it is no plan; give the folder that `cleave compile` wrote\n");
}

TEST(Program, WrongUsageIsStatus2) {
  for (std::vector<llvm::StringRef> arguments :
       std::vector<std::vector<llvm::StringRef>>{{},
                                                 {"inspect"},
                                                 {"explode"},
                                                 {"inspect", "a.plan", "--format", "yaml"},
                                                 {"inspect", "a.plan", "--wrong"}}) {
    Outcome outcome = runCleave(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_NE(outcome.err, "");
  }
}

TEST(Program, HelpAndVersionAreStatus0) {
  EXPECT_EQ(runCleave({"--help"}).status, 0);
  EXPECT_EQ(runCleave({"inspect", "--help"}).status, 0);
  Outcome version = runCleave({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.rfind("cleave ", 0), 0u) << version.out;
}

TEST(Program, ReportsAnOutputThatCannotBeWritten) {
  TestFolder folder;
  writeTwoStagePlan(folder.path());
  std::string err = folder.at("err");
  int status = llvm::sys::ExecuteAndWait(CLEAVE_PROGRAM, {CLEAVE_PROGRAM, "inspect", folder.path()},
                                         std::nullopt, {"", llvm::StringRef("/dev/full"), err});
  EXPECT_EQ(status, 1);
  EXPECT_NE(readFile(err).find("cannot write to the standard output"), std::string::npos) << readFile(err);
}

} // namespace cleave
