//===- FailureCallbackTest.cpp - What a user does when a run fails --------===//
#include "runtime/session/FailureCallback.h"
#include "tests/unit/runtime/TestModels.h"
#include <arpa/inet.h>
#include <atomic>
#include <future>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::runtime {

using namespace std::chrono_literals;

/// Longer than anything here takes; what hangs is a failure then.
static constexpr auto kBound = 60s;

TEST(FailureCallbackTest, ACallThatBlocksHoldsUpNobody) {
  std::promise<void> release;
  std::atomic<int> calls{0};
  auto callback = std::make_unique<FailureCallback>([&, released = release.get_future().share()](auto &) {
    released.wait();
    ++calls;
  });
  callback->call("first");
  callback->call("second");
  EXPECT_EQ(calls, 0) << "both calls have returned before the function has";
  release.set_value();
  callback.reset();
  EXPECT_EQ(calls, 1) << "destroying it waits, and only the first call counts";
}

TEST(FailureCallbackTest, MayDestroyItsOwner) {
  std::promise<std::string> done;
  std::unique_ptr<FailureCallback> callback;
  callback = std::make_unique<FailureCallback>([&](const std::string &message) {
    callback.reset();
    done.set_value(message);
  });
  // The call has `callback` destroyed.
  FailureCallback &called = *callback;
  called.call("broken");
  std::future<std::string> message = done.get_future();
  ASSERT_EQ(message.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(message.get(), "broken");
}

TEST(FailureCallbackTest, EndsWithoutACall) {
  FailureCallback([](auto &) { FAIL(); });
}

class FailingSessionTest : public PlanTest {
protected:
  FailingSessionTest() {
    writer.input("x", tensorType(plan::DType::Float, {2}));
    writer.stage(0).output(writer.stage(0).call("aten::neg", {writer.stage(0).input(0)}));
    writer.output("y", 0, 0);
  }

  static uint16_t freePort() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), size), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size), 0);
    close(listener);
    return ntohs(address.sin_port);
  }

  /// One of several processes, as far as it knows: of one.
  std::unique_ptr<Session> openLaunched(FailureCallback::Function failed) {
    SessionOptions options;
    options.launch.emplace();
    options.launch->address = "127.0.0.1";
    options.launch->port = freePort();
    options.onFailure = std::move(failed);
    return open(writer, std::move(options));
  }

  PlanWriter writer{{0}};
};

TEST_F(FailingSessionTest, MayBeDestroyedInItsCallback) {
  std::promise<std::string> done;
  std::unique_ptr<Session> session;
  std::promise<void> told;
  session = openLaunched([&, may = told.get_future().share()](const std::string &message) {
    // No call of the session is under way then.
    may.wait();
    session.reset();
    done.set_value(message);
  });
  ASSERT_TRUE(session);
  EXPECT_EQ(session->fail("broken"), "broken");
  told.set_value();
  std::future<std::string> message = done.get_future();
  ASSERT_EQ(message.wait_for(kBound), std::future_status::ready) << "the session waits for itself";
  EXPECT_EQ(message.get(), "broken");
  EXPECT_FALSE(session);
}

TEST_F(FailingSessionTest, WaitsForItsCallbackWhenDestroyedElsewhere) {
  std::atomic<bool> returned{false};
  std::promise<void> release;
  auto session = openLaunched([&, released = release.get_future().share()](auto &) {
    released.wait();
    returned = true;
  });
  ASSERT_TRUE(session);
  session->fail("broken");
  EXPECT_THAT(failureOf(session->close()), testing::HasSubstr("broken")) << "while the callback blocks";
  release.set_value();
  session.reset();
  EXPECT_TRUE(returned);
}

} // namespace cleave::runtime
