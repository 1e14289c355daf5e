//===- HostAddressTest.cpp - By which others reach this machine -----------===//
#include "runtime/base/HostAddress.h"
#include <cstdlib>
#include <gmock/gmock.h>

namespace cleave::runtime {

using testing::HasSubstr;
using testing::ThrowsMessage;

class HostAddressTest : public testing::Test {
protected:
  HostAddressTest() {
    launch.size = launch.localSize = 2;
    launch.address = "127.0.0.1";
    launch.port = 1;
  }
  ~HostAddressTest() override { unsetenv("GLOO_SOCKET_IFNAME"); }
  /// Two processes, on this machine.
  Launch launch;
};

TEST_F(HostAddressTest, IsTowardsTheStore) { EXPECT_EQ(hostAddress(launch), "127.0.0.1"); }

TEST_F(HostAddressTest, IsThatOfTheInterfaceThatIsNamed) {
  launch.address = "no.such.host.invalid";
  setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  EXPECT_EQ(hostAddress(launch), "127.0.0.1");
}

TEST_F(HostAddressTest, FailsWhereThereIsNone) {
  setenv("GLOO_SOCKET_IFNAME", "nothing0", 1);
  EXPECT_THAT([&] { hostAddress(launch); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no such interface")));
  unsetenv("GLOO_SOCKET_IFNAME");
  launch.address = "no.such.host.invalid";
  EXPECT_THAT([&] { hostAddress(launch); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no machine of that name")));
}

TEST_F(HostAddressTest, IsNoLoopbackForOtherMachines) {
  launch.localSize = 1;
  EXPECT_THAT([&] { hostAddress(launch); },
              ThrowsMessage<std::runtime_error>(HasSubstr("cannot reach this one")));
}

} // namespace cleave::runtime
