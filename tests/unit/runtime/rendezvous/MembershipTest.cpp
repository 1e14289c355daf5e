//===- MembershipTest.cpp - How processes meet, and end together ----------===//
#include "runtime/rendezvous/Membership.h"
#include <future>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::runtime {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

static uint16_t freePort() {
  const int made = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(made, reinterpret_cast<sockaddr *>(&address), length), 0);
  EXPECT_EQ(getsockname(made, reinterpret_cast<sockaddr *>(&address), &length), 0);
  close(made);
  return ntohs(address.sin_port);
}

/// Ranks that are threads of one process, with a store of their own.
class MeetingTest : public testing::Test {
protected:
  using Joined = llvm::Expected<Membership::Owner>;
  const uint16_t port = freePort();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  Membership::Owner first, second;
  bool isAtAgents = false;

  Launch launchOf(uint32_t rank, uint32_t size = 2) const {
    Launch launch;
    launch.rank = rank;
    launch.size = launch.localSize = size;
    launch.address = "127.0.0.1";
    launch.port = port;
    launch.prefix = "cleave/test";
    launch.agentHoldsStore = isAtAgents;
    return launch;
  }
  Joined join(Launch launch, const std::string &value = "checksum") const {
    return Membership::join(launch, "plan", value, {30s, 60s});
  }
  std::string refusalOf(Launch launch) const {
    Joined joined = join(launch);
    return joined ? "none" : llvm::toString(joined.takeError());
  }
  void joinBoth() {
    auto other = std::async(std::launch::async, [&] {
      Joined joined = join(launchOf(1));
      EXPECT_TRUE(bool(joined)) << llvm::toString(joined.takeError());
      return joined ? std::move(*joined) : Membership::Owner();
    });
    Joined own = join(launchOf(0));
    second = other.get();
    ASSERT_TRUE(second && own) << llvm::toString(own.takeError());
    first = std::move(*own);
  }
  /// The store that torchrun's agent would hold.
  std::unique_ptr<Store> holdAgentsStore() {
    std::unique_ptr<Store> store = openStore(launchOf(0), 30s);
    isAtAgents = true;
    return store;
  }
  /// Error messages of `work` on both ranks, at the same time.
  template <typename Work> std::pair<std::string, std::string> failures(Work work) {
    auto other = std::async(std::launch::async, [&] { return llvm::toString(work(*second)); });
    std::string own = llvm::toString(work(*first));
    return {own, other.get()};
  }
  void expectThatTheyEndWell() {
    auto ended = failures([](Membership &membership) { return membership.leave(); });
    EXPECT_EQ(ended, std::pair(std::string(), std::string()));
  }
  /// A store connection as anybody who knows the port can make it.
  std::unique_ptr<Store> ownStore() const { return openStore(launchOf(1), 30s); }
  std::unique_ptr<Store> storeOfTheRun() const {
    std::unique_ptr<Store> store = ownStore();
    return store->withPrefix(llvm::StringRef(*store->find("run")).rsplit(' ').second.str());
  }
};

namespace {
/// Two ranks that have joined.
class MembershipTest : public MeetingTest {
protected:
  void SetUp() override { joinBoth(); }
};

/// A fake rank 1 that joins the run in the store, but opens no transport.
class FakeRank {
public:
  explicit FakeRank(const Launch &launch) : store(openStore(launch, 30s)) {
    while (!(run = store->find("run")))
      std::this_thread::sleep_for(1ms);
    const auto [rest, runId] = llvm::StringRef(*run).rsplit(' ');
    const auto [host, port] = rest.rsplit(' ');
    line = LivenessMonitor::connect((host.rsplit(' ').second + " " + port + " " + runId).str(), launch.rank,
                                    LivenessMonitor::Clock::now() + 30s);
    std::unique_ptr<Store> ofRun = store->withPrefix(runId.str());
    ofRun->set("beat/1", "1 is there");
    std::optional<std::string> come;
    while (!(come = ofRun->find("come/0")))
      std::this_thread::sleep_for(1ms);
    ofRun->set("come/1", *come);
  }

private:
  std::unique_ptr<Store> store;
  std::optional<std::string> run;
  std::unique_ptr<LivenessMonitor> line;
};
} // namespace

/// Rank 0 closes its store a little after the others have left a session.
TEST_F(MeetingTest, AStoreThatIsLostWasThatOfASessionBefore) {
  Launch before = launchOf(0);
  before.prefix = "cleave/before";
  std::unique_ptr<Store> old = openStore(before, 30s);
  auto other = std::async(std::launch::async, [&] { return join(launchOf(1)); });
  std::this_thread::sleep_for(300ms);
  old.reset();
  Joined own = join(launchOf(0)), joined = other.get();
  ASSERT_TRUE(bool(own)) << llvm::toString(own.takeError());
  ASSERT_TRUE(bool(joined)) << llvm::toString(joined.takeError());
  first = std::move(*own);
  second = std::move(*joined);
  expectThatTheyEndWell();
}

TEST_F(MeetingTest, AnotherRunMayFollowAFailedOneAtAnAgentsStore) {
  std::unique_ptr<Store> store = holdAgentsStore();
  ASSERT_NO_FATAL_FAILURE(joinBoth());
  EXPECT_EQ(first->fail("rank 0: no more"), "rank 0: no more");
  EXPECT_EQ(llvm::toString(second->barrier()), "rank 0: no more");
  first.reset();
  second.reset();
  EXPECT_FALSE(store->find("run"));
  ASSERT_NO_FATAL_FAILURE(joinBoth());
  expectThatTheyEndWell();
}

TEST_F(MeetingTest, ARunOfAKilledProcessIsNotInTheWay) {
  std::unique_ptr<Store> store = holdAgentsStore();
  store->set("run", "2 host 4711 127.0.0.1 " + std::to_string(freePort()) + " 0123456789abcdef");
  ASSERT_NO_FATAL_FAILURE(joinBoth());
  expectThatTheyEndWell();
}

TEST_F(MeetingTest, AnAttemptThatIsGivenUpLeavesThePort) {
  auto own = std::async(std::launch::async,
                        [&] { return Membership::join(launchOf(0), "plan", "checksum", {3s, 3s}); });
  auto rank = std::make_unique<FakeRank>(launchOf(1));
  rank.reset();
  Joined joined = own.get();
  ASSERT_FALSE(bool(joined));
  EXPECT_THAT(llvm::toString(joined.takeError()), HasSubstr("rank 1 has died"));
  // The attempt is still waiting for connections.
  std::unique_ptr<Store> again;
  for (const auto end = Membership::Clock::now() + 30s; !again && Membership::Clock::now() < end;)
    try {
      again = openStore(launchOf(0), 1s);
    } catch (const std::exception &) {
      std::this_thread::sleep_for(10ms);
    }
  EXPECT_TRUE(again);
}

/// After leaving there are no status writes to read any more.
TEST_F(MembershipTest, WhoLeavesDoesNotTakeTheStoreForSilent) {
  auto leaving = std::async(std::launch::async, [&] { return llvm::toString(first->leave()); });
  EXPECT_EQ(llvm::toString(second->barrier()), "");
  std::this_thread::sleep_for(2s);
  EXPECT_THAT(first->describeOthers(), testing::Not(HasSubstr("does not answer")));
  second.reset();
  EXPECT_THAT(leaving.get(), StartsWith("rank 1 has died"));
}

TEST_F(MembershipTest, OthersEndAloneWhereARankIsTaken) {
  EXPECT_THAT(refusalOf(launchOf(1)),
              StartsWith("rank 1 cannot join the others: another process is rank 1 of the run at " + place +
                         " (process " + std::to_string(getpid()) + ", on "));
  EXPECT_THAT(refusalOf(launchOf(0)), HasSubstr("cannot hold the store at " + place));
  EXPECT_THAT(refusalOf(launchOf(2, 3)),
              HasSubstr("found a run of 2 processes at " + place + ", expected one of 3"));
  // The store may be an agent's.
  Launch agents = launchOf(0);
  agents.agentHoldsStore = true;
  EXPECT_THAT(refusalOf(agents), HasSubstr("another process is rank 0 of the run at " + place));
  expectThatTheyEndWell();
}

TEST_F(MembershipTest, AnotherRunMayFollowAtAnAgentsStore) {
  std::unique_ptr<Store> store = ownStore();
  EXPECT_TRUE(store->find("run"));
  // Rank 0, which holds the store here, leaves last.
  auto other = std::async(std::launch::async, [&] { return llvm::toString(second->leave()); });
  EXPECT_EQ(llvm::toString(first->leave()), "");
  EXPECT_EQ(other.get(), "");
  EXPECT_FALSE(store->find("run"));
}

TEST_F(MembershipTest, AFailureIsThatOfAll) {
  const std::string said = second->fail("rank 1: no result after 3 s");
  EXPECT_EQ(said, "rank 1: no result after 3 s");
  EXPECT_EQ(llvm::toString(first->barrier()), said);
}

TEST_F(MembershipTest, WhoEndsWithoutAWordHasDied) {
  second.reset();
  EXPECT_THAT(llvm::toString(first->barrier()), StartsWith("rank 1 has died"));
}

TEST_F(MembershipTest, TextsAreBounded) {
  auto [own, other] = failures([](Membership &membership) {
    return membership.gather(std::string(100, 'x'), 0, /*most=*/10).takeError();
  });
  EXPECT_EQ(
      own,
      "rank 0 waited for what all ranks report: a message of rank 1: found a text of 100 bytes, expected at "
      "most 10");
  EXPECT_EQ(other, own);
}

TEST_F(MembershipTest, LongTextsComeWhole) {
  const std::string text(3 << 20, 'x');
  auto other = std::async(std::launch::async, [&] { return llvm::cantFail(second->gather(text, 0)); });
  EXPECT_EQ(llvm::cantFail(first->gather("", 0))[1], text);
  EXPECT_TRUE(other.get().empty());
  expectThatTheyEndWell();
}

TEST_F(MembershipTest, WordsOfOthersArePrintable) {
  storeOfTheRun()->set("failed", "\033[2J" + std::string(1 << 20, 'x'));
  const std::string said = llvm::toString(first->barrier());
  EXPECT_THAT(said, StartsWith("\\x1b[2Jxxx"));
  EXPECT_LT(said.size(), 100u << 10);
}

TEST_F(MembershipTest, AWrongTimeIsRefused) {
  const uint64_t bytes = 4;
  auto other = std::async(std::launch::async, [&] { return second->clockOffset().takeError(); });
  uint64_t asked = 0;
  first->transport().receive(1, Tag::Control, &asked, sizeof asked)->wait();
  first->transport().send(1, Tag::Control, &bytes, sizeof bytes)->wait();
  auto told = first->transport().send(1, Tag::Control, "late", bytes);
  EXPECT_EQ(llvm::toString(other.get()),
            "rank 1 waited for the clocks of the ranks: a message of rank 0: found no time");
  // The other end may have ended the run before this one has sent all of the text.
  try {
    told->wait();
  } catch (const TransportClosed &) {
  }
}

} // namespace cleave::runtime
