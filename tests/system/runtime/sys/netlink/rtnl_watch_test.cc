// SPDX-License-Identifier: Apache-2.0
// RtnlWatch against the kernel, in a network namespace that is this program's own.
#include "holdfast/sys/rtnl_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/support/eventually.h"

namespace holdfast::sys {
namespace {

using test_support::Eventually;

constexpr int kTimeoutMs = 5'000;

void RunIp(const std::string& words) { EXPECT_EQ(::system(("ip " + words).c_str()), 0) << words; }

class RtnlWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    RunIp("link add a0 type veth peer name b0");
    // Without link-local addresses, which would come when the links are up and be news.
    RunIp("link set a0 addrgenmode none");
    RunIp("link set b0 addrgenmode none");
    RunIp("link set a0 up");
    RunIp("link set b0 up");
    RunIp("address add 192.0.2.1/24 dev a0");
    auto watch = RtnlWatch::Open();
    ASSERT_TRUE(watch) << watch.error().message();
    watch_.emplace(std::move(*watch));
  }
  // What was done before is told by the time that the socket is readable.
  bool HasNews() {
    pollfd poll{watch_->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&poll, 1, kTimeoutMs), 1) << "no notification came";
    const auto news = watch_->Drain();
    EXPECT_TRUE(news) << news.error().message();
    return news.value_or(false);
  }

  std::optional<RtnlWatch> watch_;
};

TEST_F(RtnlWatchTest, AddressesAndDefaultRoutesAreNews) {
  for (const char* change :
       {"address add 192.0.2.7/32 dev a0", "address del 192.0.2.7/32 dev a0",
        "address add 2001:db8::7/128 dev a0 nodad", "address del 2001:db8::7/128 dev a0",
        "route add default via 192.0.2.9", "route del default via 192.0.2.9"}) {
    (void)watch_->Drain();  // the last rest of the change before
    RunIp(change);
    // An IPv6 address has a route of its own first, and is told a moment later.
    EXPECT_TRUE(Eventually([&] { return HasNews(); })) << change;
  }
}

TEST_F(RtnlWatchTest, RoutesToPodsAreNone) {
  RunIp("route add 10.88.0.7/32 dev a0");
  EXPECT_FALSE(HasNews());
  RunIp("route del 10.88.0.7/32 dev a0");
  EXPECT_FALSE(HasNews());
}

TEST_F(RtnlWatchTest, LostNotificationsAreNews) {
  const int least = 1;
  ASSERT_EQ(::setsockopt(watch_->fd(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least), 0);
  ASSERT_TRUE(watch_->Drain());
  for (int i = 1; i < 100; ++i) RunIp("route add 10.88.0." + std::to_string(i) + "/32 dev a0");
  EXPECT_TRUE(HasNews()) << "though each of them was none";
}

}  // namespace
}  // namespace holdfast::sys
