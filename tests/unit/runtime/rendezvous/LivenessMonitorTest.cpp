//===- LivenessMonitorTest.cpp - Seeing that processes are gone --------===//
#include "runtime/rendezvous/LivenessMonitor.h"
#include <future>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::runtime {

using namespace std::chrono_literals;

static LivenessMonitor::Clock::time_point soon() { return LivenessMonitor::Clock::now() + 10s; }

namespace {
/// A LivenessMonitor with a thread that watches it.
class Watched {
public:
  explicit Watched(std::unique_ptr<LivenessMonitor> made)
      : line(std::move(made)), lost(std::async(std::launch::async, [this] { return line->watch(); })) {}
  ~Watched() { line->stop(); }

  void awaitConnected(uint32_t count) {
    while (line->connected() < count)
      std::this_thread::sleep_for(1ms);
  }
  bool isQuiet() { return lost.wait_for(100ms) == std::future_status::timeout; }

  std::unique_ptr<LivenessMonitor> line;
  std::future<std::optional<LivenessMonitor::Loss>> lost;
};
} // namespace

static LivenessMonitor::Loss died(uint32_t rank) { return {rank, ""}; }

static std::unique_ptr<LivenessMonitor> listenLocally() {
  return LivenessMonitor::listen("127.0.0.1", /*size=*/4);
}

TEST(LivenessMonitorTest, SeesAProcessThatIsKilled) {
  Watched first(listenLocally());
  const std::string endpoint = first.line->endpoint();
  const pid_t child = fork();
  if (child == 0) {
    std::unique_ptr<LivenessMonitor> line = LivenessMonitor::connect(endpoint, 3, soon());
    pause();
  }
  first.awaitConnected(1);
  EXPECT_TRUE(first.isQuiet());
  kill(child, SIGKILL);
  EXPECT_EQ(first.lost.get(), died(3));
  waitpid(child, nullptr, 0);
}

/// A process of another run, which reads this one's store by mistake.
TEST(LivenessMonitorTest, TakesRanksForStrangersThatItDoesNotHave) {
  Watched first(listenLocally());
  for (uint32_t rank : {0u, 4u}) {
    Watched stranger(LivenessMonitor::connect(first.line->endpoint(), rank, soon()));
    EXPECT_EQ(stranger.lost.get(), died(0));
  }
  EXPECT_EQ(first.line->connected(), 0u);
  EXPECT_TRUE(first.isQuiet());
}

TEST(LivenessMonitorTest, SeesThatRankZeroIsGone) {
  auto first = std::make_unique<Watched>(listenLocally());
  Watched second(LivenessMonitor::connect(first->line->endpoint(), 1, soon()));
  first->awaitConnected(1);
  first.reset();
  EXPECT_EQ(second.lost.get(), died(0));
}

TEST(LivenessMonitorTest, TakesNoNoticeOfThoseWhoHaveSaidGoodbye) {
  Watched first(listenLocally());
  auto second = std::make_unique<Watched>(LivenessMonitor::connect(first.line->endpoint(), 1, soon()));
  Watched third(LivenessMonitor::connect(first.line->endpoint(), 2, soon()));
  first.awaitConnected(2);
  second->line->sayGoodbye();
  second.reset();
  EXPECT_TRUE(first.isQuiet());
}

TEST(LivenessMonitorTest, EndsWhenAllHaveSaidGoodbye) {
  Watched first(listenLocally()), second(LivenessMonitor::connect(first.line->endpoint(), 1, soon()));
  first.awaitConnected(1);
  second.line->sayGoodbye();
  EXPECT_EQ(first.lost.get(), std::nullopt);
  EXPECT_TRUE(second.isQuiet());
  first.line->sayGoodbye();
  EXPECT_EQ(second.lost.get(), std::nullopt);
}

TEST(LivenessMonitorTest, TakesNoNoticeOfStrangers) {
  Watched first(listenLocally());
  const std::string endpoint = first.line->endpoint();
  std::string other = endpoint;
  other.back() = other.back() == '0' ? '1' : '0';
  LivenessMonitor::connect(other, 1, soon());
  EXPECT_TRUE(first.isQuiet());
  EXPECT_EQ(first.line->connected(), 0u);
}

/// Strangers would use up the process's file descriptors.
TEST(LivenessMonitorTest, ClosesTheOldestOfManyStrangers) {
  Watched first(listenLocally());
  const std::string endpoint = first.line->endpoint();
  const llvm::StringRef port = llvm::StringRef(endpoint).split(' ').second.split(' ').first;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(uint16_t(std::stoi(port.str())));
  std::vector<int> strangers;
  for (int count = 0; count < 200; ++count) {
    strangers.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(strangers.back(), reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  }
  pollfd closed{strangers.front(), POLLIN, 0};
  EXPECT_EQ(poll(&closed, 1, 10'000), 1);
  Watched rank(LivenessMonitor::connect(endpoint, 1, soon()));
  first.awaitConnected(1);
  EXPECT_TRUE(first.isQuiet());
  for (int stranger : strangers)
    close(stranger);
}

TEST(LivenessMonitorTest, SaysLittleOfAPlaceThatIsNone) {
  std::string endpoint(1 << 22, 'x');
  endpoint += " 5 word";
  try {
    LivenessMonitor::connect(endpoint, 1, soon());
    FAIL();
  } catch (const std::exception &exception) {
    EXPECT_LT(std::string(exception.what()).size(), 1000u);
  }
}

TEST(LivenessMonitorTest, SeesThatNobodyIsThereAnyMore) {
  std::string endpoint;
  {
    Watched there(listenLocally());
    endpoint = there.line->endpoint();
    EXPECT_FALSE(LivenessMonitor::isGone(endpoint, soon()));
  }
  EXPECT_TRUE(LivenessMonitor::isGone(endpoint, soon()));
  EXPECT_FALSE(LivenessMonitor::isGone("no endpoint", soon()));
}

TEST(LivenessMonitorTest, TellsOthersWhyTheRunHasFailed) {
  Watched first(listenLocally());
  auto second = std::make_unique<Watched>(LivenessMonitor::connect(first.line->endpoint(), 1, soon()));
  Watched third(LivenessMonitor::connect(first.line->endpoint(), 2, soon()));
  first.awaitConnected(2);
  // The process ends at once: the reason arrives before the end of the connection.
  second->line->sayFailure("no result after 3 s\n\033[2J");
  second.reset();
  const std::optional<LivenessMonitor::Loss> told = first.lost.get();
  EXPECT_EQ(told, (LivenessMonitor::Loss{1, "no result after 3 s\\x0a\\x1b[2J"}));
  first.line->sayFailure("one");
  EXPECT_EQ(third.lost.get(), (LivenessMonitor::Loss{0, "one"}));
}

/// Processes that have just connected get the reason as well.
TEST(LivenessMonitorTest, TellsThoseThatNobodyHasHeardYet) {
  std::unique_ptr<LivenessMonitor> first = listenLocally();
  Watched second(LivenessMonitor::connect(first->endpoint(), 1, soon()));
  while (first->connected() == 0)
    first->sayFailure(std::string(1 << 20, 'x'));
  const std::optional<LivenessMonitor::Loss> told = second.lost.get();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->rank, 0u);
  EXPECT_EQ(told->reason.substr(0, 8), "xxxxxxxx");
  EXPECT_LT(told->reason.size(), 16u << 10);
}

TEST(LivenessMonitorTest, GivesARankToOneAlone) {
  Watched first(listenLocally()), second(LivenessMonitor::connect(first.line->endpoint(), 1, soon()));
  first.awaitConnected(1);
  Watched other(LivenessMonitor::connect(first.line->endpoint(), 1, soon()));
  EXPECT_EQ(other.lost.get(), died(0));
  EXPECT_TRUE(first.isQuiet());
  EXPECT_EQ(first.line->connected(), 1u);
}

TEST(LivenessMonitorTest, StopsWatching) {
  Watched first(listenLocally());
  first.line->stop();
  EXPECT_EQ(first.lost.get(), std::nullopt);
}

TEST(LivenessMonitorTest, GivesUpAtTheDeadline) {
  std::string endpoint;
  {
    Watched gone(listenLocally());
    endpoint = gone.line->endpoint();
  }
  EXPECT_THROW(LivenessMonitor::connect(endpoint, 1, LivenessMonitor::Clock::now() + 50ms), std::exception);
}

} // namespace cleave::runtime
