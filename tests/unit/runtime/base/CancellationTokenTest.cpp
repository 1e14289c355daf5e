//===- CancellationTokenTest.cpp - Deadline and failure of a request ------===//
#include "runtime/base/CancellationToken.h"
#include <gtest/gtest.h>
#include <optional>
#include <thread>
#include <vector>

namespace cleave::runtime {

using namespace std::chrono_literals;
using Clock = CancellationToken::Clock;

namespace {
/// Another process has failed first.
class EarlierFailure final : public FailureAgreement {
public:
  std::string fail(const std::string &message) override {
    told.push_back(message);
    return "rank 3 has died";
  }
  std::string reportLost(uint32_t rank, const std::string &context) override {
    return fail(std::to_string(rank) + ": " + context);
  }
  std::string describeRanks() override { return "rank 0 is computing, rank 3 is silent"; }

  std::vector<std::string> told;
};
} // namespace

TEST(CancellationToken, KeepsTheFirstMessageAndWakesOnce) {
  CancellationToken token({});
  int woken = 0;
  const CancellationToken::Waker waker(token, [&] {
    EXPECT_TRUE(token.isCancelled());
    ++woken;
  });
  std::optional<CancellationToken::Waker> gone;
  gone.emplace(token, [] { FAIL() << "it has gone"; });
  gone.reset();
  EXPECT_FALSE(token.isCancelled());
  EXPECT_EQ(token.message(), "");
  EXPECT_TRUE(token.cancel("first"));
  EXPECT_FALSE(token.cancel("second"));
  EXPECT_EQ(token.message(), "first");
  EXPECT_TRUE(token.flag());
  EXPECT_EQ(woken, 1);
  EXPECT_FALSE(token.finish());
}

TEST(CancellationToken, OneOfManyCancels) {
  for (int round = 0; round < 100; ++round) {
    CancellationToken token({});
    std::atomic<int> first{0}, woken{0};
    const CancellationToken::Waker waker(token, [&] { ++woken; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] { first += i == 3 ? token.finish() : token.cancel(std::to_string(i)); });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(woken, token.isCancelled());
  }
}

TEST(CancellationToken, NothingCancelsWhatHasFinished) {
  bool wasTold = false;
  CancellationToken token({.timeout = 0ms, .onTimeout = [&](const std::string &) { wasTold = true; }});
  EXPECT_TRUE(token.finish());
  token.checkDeadline();
  EXPECT_FALSE(token.cancel("late"));
  EXPECT_FALSE(token.isCancelled());
  EXPECT_FALSE(wasTold);
}

TEST(CancellationToken, TheDeadlineMovesUntilWorkBegins) {
  Clock::time_point previous{};
  CancellationToken token({.timeout = 10s, .earliestBegin = [&] { return previous; }});
  const Clock::time_point first = token.deadline();
  EXPECT_LE(first, Clock::now() + 10s);
  previous = Clock::now() + 5s;
  EXPECT_EQ(token.deadline(), previous + 10s);
  token.begin();
  const Clock::time_point begun = token.deadline();
  EXPECT_LT(begun, previous + 10s);
  token.begin();
  EXPECT_EQ(token.deadline(), begun);
}

TEST(CancellationToken, SaysAtTheDeadlineWhatRanksDo) {
  std::string told;
  CancellationToken token({.timeout = 0ms,
                           .describeRanks = [] { return "rank 1 is computing"; },
                           .onTimeout = [&](const std::string &message) { told = message; }});
  token.checkDeadline();
  EXPECT_TRUE(token.isCancelled());
  EXPECT_EQ(token.message(), "no result after 0 s: rank 1 is computing; allow more time (--timeout)");
  EXPECT_EQ(told, token.message());
}

TEST(CancellationToken, AgreesWithOtherProcesses) {
  EarlierFailure processes;
  CancellationToken failed({.processes = &processes}), late({.timeout = 2s, .processes = &processes}),
      lost({.processes = &processes});
  EXPECT_TRUE(failed.cancel("own"));
  EXPECT_EQ(failed.message(), "rank 3 has died");
  late.expire();
  EXPECT_EQ(late.message(), "rank 3 has died");
  EXPECT_TRUE(lost.cancelLost(2, "rank 0 waits"));
  EXPECT_EQ(
      processes.told,
      (std::vector<std::string>{
          "own", "no result after 2 s: rank 0 is computing, rank 3 is silent; allow more time (--timeout)",
          "2: rank 0 waits"}));
}

} // namespace cleave::runtime
