//===- TraceMergeTest.cpp - Traces that other processes send --------------===//
#include "tools/cleave/run/TraceMerge.h"
#include "tests/unit/plan/PlanBuilder.h"
#include <gmock/gmock.h>

namespace cleave {

using plan::messageOf;
using testing::HasSubstr;

static std::string headingOf(uint32_t rank, uint64_t bytes) {
  return "{\"bytes\": " + std::to_string(bytes) + ", \"begin\": 0, \"names\": {\"" + std::to_string(rank) +
         "\": \"cpu:0\"}}";
}

class TraceMergeTest : public testing::Test {
protected:
  const std::unique_ptr<plan::Plan> plan = plan::makeTwoStagePlan();
  TraceMerge merge{*plan, [](llvm::StringRef) { return llvm::Error::success(); }};
};

TEST_F(TraceMergeTest, WaitsForNothingThatIsNotSent) {
  EXPECT_GT(llvm::cantFail(merge.begin({headingOf(0, 0), headingOf(1, uint64_t(1) << 36)})), uint64_t(1)
                                                                                                 << 20);
  EXPECT_EQ(messageOf(merge.add(0, "")), "");
  EXPECT_THAT(messageOf(merge.add(1, "")),
              HasSubstr("a message of rank 1: found 0 bytes of its trace, expected "));
}

TEST_F(TraceMergeTest, TakesNoMoreThanItWasToldOf) {
  llvm::cantFail(merge.begin({headingOf(0, 44), headingOf(1, 0)}));
  EXPECT_EQ(messageOf(merge.add(0, std::string(44, 0))), "");
  EXPECT_THAT(messageOf(merge.add(0, std::string(44, 0))),
              HasSubstr("found 44 bytes of its trace, expected 0"));
}

TEST_F(TraceMergeTest, BelievesNoNumberOfChunks) {
  EXPECT_EQ(llvm::cantFail(TraceMerge::chunksOf(1, "12")), 12u);
  for (const char *text : {"", "x", "-1", "18446744073709551615", "99999999999999999999"})
    EXPECT_THAT(messageOf(TraceMerge::chunksOf(1, text)),
                HasSubstr("a message of rank 1: found no trace of it"));
}

} // namespace cleave
