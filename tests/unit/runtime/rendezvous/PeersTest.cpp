//===- PeersTest.cpp - How processes meet, and end together ---------------===//
#include "runtime/rendezvous/Peers.h"
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

/// Two ranks that have met, each a thread's.
class PeersTest : public testing::Test {
protected:
  using Joined = llvm::Expected<Peers::Owner>;
  const uint16_t port = freePort();
  const std::string place = "127.0.0.1:" + std::to_string(port);
  Peers::Owner first, second;

  Launch launchOf(uint32_t rank, uint32_t size = 2) const {
    Launch launch;
    launch.rank = rank;
    launch.size = launch.localSize = size;
    launch.address = "127.0.0.1";
    launch.port = port;
    launch.prefix = "cleave/test";
    return launch;
  }
  Joined join(Launch launch, const std::string &value = "checksum") const {
    return Peers::join(launch, "plan", value, {30s, 60s});
  }
  std::string refusalOf(Launch launch) const {
    Joined joined = join(launch);
    return joined ? "none" : llvm::toString(joined.takeError());
  }
  void SetUp() override {
    auto other = std::async(std::launch::async, [&] {
      Joined joined = join(launchOf(1));
      EXPECT_TRUE(bool(joined)) << llvm::toString(joined.takeError());
      return joined ? std::move(*joined) : Peers::Owner();
    });
    Joined own = join(launchOf(0));
    second = other.get();
    ASSERT_TRUE(second && own) << llvm::toString(own.takeError());
    first = std::move(*own);
  }
  /// What `work` fails by at both ranks, at the same time.
  template <typename Work> std::pair<std::string, std::string> failures(Work work) {
    auto other = std::async(std::launch::async, [&] { return llvm::toString(work(*second)); });
    std::string own = llvm::toString(work(*first));
    return {own, other.get()};
  }
  void expectThatTheyEndWell() {
    auto ended = failures([](Peers &peers) { return peers.leave(); });
    EXPECT_EQ(ended, std::pair(std::string(), std::string()));
  }
  /// What anybody can reach who knows the port.
  std::unique_ptr<Store> ownStore() const { return openStore(launchOf(1), 30s); }
  std::unique_ptr<Store> storeOfTheRun() const {
    std::unique_ptr<Store> store = ownStore();
    return store->below(llvm::StringRef(*store->find("run")).rsplit(' ').second.str());
  }
};

TEST_F(PeersTest, OthersEndAloneWhereARankIsTaken) {
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

TEST_F(PeersTest, AnotherRunMayFollowAtAnAgentsStore) {
  std::unique_ptr<Store> store = ownStore();
  EXPECT_TRUE(store->find("run"));
  // Rank 0, which holds the store here, goes last.
  auto other = std::async(std::launch::async, [&] { return llvm::toString(second->leave()); });
  EXPECT_EQ(llvm::toString(first->leave()), "");
  EXPECT_EQ(other.get(), "");
  EXPECT_FALSE(store->find("run"));
}

TEST_F(PeersTest, AFailureIsThatOfAll) {
  const std::string said = second->fail("rank 1: no result after 3 s");
  EXPECT_EQ(said, "rank 1: no result after 3 s");
  EXPECT_EQ(llvm::toString(first->meet()), said);
}

TEST_F(PeersTest, WhoEndsWithoutAWordHasDied) {
  second.reset();
  EXPECT_THAT(llvm::toString(first->meet()), StartsWith("rank 1 has died"));
}

TEST_F(PeersTest, TextsAreBounded) {
  auto [own, other] =
      failures([](Peers &peers) { return peers.gather(std::string(100, 'x'), 0, /*most=*/10).takeError(); });
  EXPECT_EQ(
      own,
      "rank 0 waited for what all ranks report: a message of rank 1: found a text of 100 bytes, expected at "
      "most 10");
  EXPECT_EQ(other, own);
}

TEST_F(PeersTest, LongTextsComeWhole) {
  const std::string text(3 << 20, 'x');
  auto other = std::async(std::launch::async, [&] { return llvm::cantFail(second->gather(text, 0)); });
  EXPECT_EQ(llvm::cantFail(first->gather("", 0))[1], text);
  EXPECT_TRUE(other.get().empty());
  expectThatTheyEndWell();
}

TEST_F(PeersTest, WordsOfOthersArePrintable) {
  storeOfTheRun()->set("failed", "\033[2J" + std::string(1 << 20, 'x'));
  const std::string said = llvm::toString(first->meet());
  EXPECT_THAT(said, StartsWith("\\x1b[2Jxxx"));
  EXPECT_LT(said.size(), 100u << 10);
}

TEST_F(PeersTest, AWrongTimeIsRefused) {
  const uint64_t bytes = 4;
  auto other = std::async(std::launch::async, [&] { return second->clockOffset().takeError(); });
  uint64_t asked = 0;
  first->wire().receive(1, Topic::Meeting, &asked, sizeof asked)->wait();
  first->wire().send(1, Topic::Meeting, &bytes, sizeof bytes)->wait();
  auto told = first->wire().send(1, Topic::Meeting, "late", bytes);
  EXPECT_EQ(llvm::toString(other.get()),
            "rank 1 waited for the clocks of the ranks: a message of rank 0: found no time");
  // It may have ended the run before this end knows that it has the text.
  try {
    told->wait();
  } catch (const WireCut &) {
  }
}

} // namespace cleave::runtime
