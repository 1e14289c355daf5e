//===- PeerWaitsTest.cpp - How long other processes are waited for --------===//
#include "runtime/rendezvous/PeerWaits.h"
#include "llvm/ADT/Twine.h"
#include <gtest/gtest.h>
#include <vector>

namespace cleave::runtime {

using namespace std::chrono_literals;

/// A clock of its own.
static constexpr PeerClock::time_point kBegin{1h};

static std::string loading(int count) { return (llvm::Twine(count) + " " + kLoadingStatus).str(); }

class PeerWaitsTest : public testing::Test {
protected:
  const PeerLimits limits{30s, 600s};
  const PeerWait wait{kBegin, "for rank 1"};
  std::vector<KnownPeer> known = std::vector<KnownPeer>(3);

  std::string overdueAfter(std::chrono::seconds seconds) {
    return wait.timeoutText(kBegin + seconds, known, /*own=*/0, limits);
  }
};

TEST_F(PeerWaitsTest, EndAtTheTimeout) {
  EXPECT_EQ(overdueAfter(29s), "");
  EXPECT_EQ(overdueAfter(30s), "30 s for rank 1");
}

TEST_F(PeerWaitsTest, CountFromWhenAnotherMovedOn) {
  known[2].update("1 is computing a", kBegin + 20s);
  // The same status in a new beat is no progress.
  known[2].update("2 is computing a", kBegin + 25s);
  // Nor is a new status of this process itself.
  known[0].update("1 is computing b", kBegin + 25s);
  EXPECT_EQ(overdueAfter(49s), "");
  EXPECT_EQ(overdueAfter(50s), "30 s for rank 1");
}

TEST_F(PeerWaitsTest, GoOnWhileAnotherLoadsAndLives) {
  for (int second = 1; second < 570; second += 20) {
    known[1].update(loading(second), kBegin + std::chrono::seconds(second));
    EXPECT_EQ(overdueAfter(std::chrono::seconds(second + 29)), "") << second;
  }
  // Counted from the beginning of loading.
  known[1].update(loading(599), kBegin + 599s);
  EXPECT_EQ(overdueAfter(600s), "");
  EXPECT_EQ(overdueAfter(601s), "600 s for rank 1, allow more time (--load-timeout)");
}

/// Whoever can write to the store can fake progress.
TEST_F(PeerWaitsTest, EndThoughAnotherMovesOnForEver) {
  // To load, and eight requests.
  const int total = 600 + 8 * 30;
  for (int second = 1; second < total; ++second)
    known[1].update(std::to_string(second) + " step " + std::to_string(second),
                    kBegin + std::chrono::seconds(second));
  EXPECT_EQ(overdueAfter(std::chrono::seconds(total - 1)), "");
  EXPECT_EQ(overdueAfter(std::chrono::seconds(total)), "840 s for rank 1");
}

TEST_F(PeerWaitsTest, EndWhereWhoLoadsIsStopped) {
  known[1].update(loading(1), kBegin + 5s);
  EXPECT_EQ(overdueAfter(34s), "");
  EXPECT_EQ(overdueAfter(35s), "30 s for rank 1");
}

TEST_F(PeerWaitsTest, MakeStatusPrintable) {
  known[1].update("1 \033[2J", kBegin);
  EXPECT_EQ(known[1].status, "\\x1b[2J");
  known[1].update("1 " + std::string(1 << 20, 'x'), kBegin);
  EXPECT_LT(known[1].status.size(), 2000u);
}

} // namespace cleave::runtime
