//===- MeasurementRoundsTest.cpp - What of several measurements counts -------------===//
#include "tools/driver/profile/MeasurementRounds.h"
#include <gtest/gtest.h>

namespace cleave {

TEST(FitLink, FindsWhatMadeTheTimes) {
  std::vector<TimedMessage> messages;
  for (double bytes : {4.0, 65536.0, 1048576.0, 4194304.0})
    messages.push_back({bytes, 2e-4 + bytes / 5e7});
  const Link link = fitLink(messages);
  EXPECT_NEAR(link.latencySeconds, 2e-4, 1e-9);
  EXPECT_NEAR(link.bytesPerSecond, 5e7, 1);
}

TEST(FitLink, IsExactForTwo) {
  const Link link = fitLink({{0, 3e-6}, {1e6, 1e-3 + 3e-6}});
  EXPECT_NEAR(link.latencySeconds, 3e-6, 1e-12);
  EXPECT_NEAR(link.bytesPerSecond, 1e9, 1);
}

/// What a switch or a socket holds goes at another rate than all that follows, and says nothing of it.
TEST(FitLink, GoesByLargeMessages) {
  std::vector<TimedMessage> messages = {{4, 1e-4}, {65536, 2e-4}};
  for (double bytes : {1048576.0, 4194304.0})
    messages.push_back({bytes, 1e-4 + (bytes - 65536) / 1e7});
  const Link link = fitLink(messages);
  EXPECT_NEAR(link.latencySeconds, 1e-4, 1e-6);
  EXPECT_NEAR(link.bytesPerSecond, 1e7, 2e5);
}

/// Differences of measurements may be anything.
TEST(FitLink, GivesALinkOfWhatWasNotSlower) {
  for (auto [small, large] : {std::pair(-1e-6, -2e-6), {0.0, 0.0}, {2e-6, 1e-6}, {-1e-6, 1e-3}}) {
    const Link link = fitLink({{4, small}, {1e6, large}});
    EXPECT_GE(link.latencySeconds, 0);
    EXPECT_LE(link.latencySeconds, 2.1e-6);
    EXPECT_GE(link.bytesPerSecond, 0.99e9);
    EXPECT_LE(link.bytesPerSecond, 1e12);
  }
}

TEST(MeasurementRounds, KeepTheMedianOfEachPoint) {
  MeasurementRounds rounds;
  for (auto [first, second, median] : {std::tuple(5.0, 1.0, 5.0), {3.0, 2.0, 3.0}, {4.0, 3.0, 4.0}}) {
    rounds.restart();
    EXPECT_EQ(llvm::cantFail(rounds.addSample(first)), median);
    EXPECT_LE(llvm::cantFail(rounds.addSample(second)), 2.0);
  }
}

/// Later rounds measure what the first one did.
TEST(MeasurementRounds, LeaveOutWhatTheFirstFindsTooLong) {
  MeasurementRounds rounds;
  EXPECT_FALSE(rounds.isTooLarge("all_reduce", 1e9));
  rounds.limit("all_reduce", 1000, 0.2, 4000, 1);
  EXPECT_FALSE(rounds.isTooLarge("all_reduce", 4000));
  rounds.limit("all_reduce", 4000, 0.3, 16000, 1);
  EXPECT_TRUE(rounds.isTooLarge("all_reduce", 16000));
  EXPECT_FALSE(rounds.isTooLarge("broadcast", 16000));
  rounds.limit("all_reduce", 1000, 2, 4000, 1);
  EXPECT_FALSE(rounds.isTooLarge("all_reduce", 4000));
  llvm::cantFail(rounds.addSample(1));
  rounds.restart();
  rounds.limit("broadcast", 1000, 2, 4000, 1);
  EXPECT_FALSE(rounds.isTooLarge("broadcast", 4000));
}

} // namespace cleave
