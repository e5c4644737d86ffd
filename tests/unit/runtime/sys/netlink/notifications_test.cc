// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/notifications.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {
namespace {

std::string Message(uint16_t type, const std::string& body, uint32_t claims = 0) {
  nlmsghdr header{};
  header.nlmsg_len = claims != 0 ? claims : static_cast<uint32_t>(NLMSG_HDRLEN + body.size());
  header.nlmsg_type = type;
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out += body;
  out.resize(NLMSG_ALIGN(out.size()));
  return out;
}

// A pair of datagram sockets in place of the kernel's.
class DrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    kernel_.Reset(fds[0]);
    ours_.Reset(fds[1]);
  }
  void Send(const std::string& datagram) const {
    ASSERT_EQ(::send(kernel_.get(), datagram.data(), datagram.size(), 0),
              static_cast<ssize_t>(datagram.size()));
  }
  // Messages of type 7 are news.
  bool Drain() {
    seen_.clear();
    const auto news = DrainNotifications(
        ours_.get(),
        [this](uint16_t type, std::string_view message) {
          seen_.emplace_back(message.substr(NLMSG_HDRLEN));
          return type == 7;
        },
        "test notifications");
    EXPECT_TRUE(news) << news.error().message();
    return news.value_or(false);
  }
  bool IsEmpty() const {
    char byte = 0;
    return ::recv(ours_.get(), &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
  }

  UniqueFd kernel_, ours_;
  std::vector<std::string> seen_;
};

TEST_F(DrainTest, NothingIsNoNews) { EXPECT_FALSE(Drain()); }

TEST_F(DrainTest, LooksAtEveryMessageOfEveryDatagram) {
  Send(Message(1, "a") + Message(2, "bc"));
  Send(Message(3, ""));
  EXPECT_FALSE(Drain());
  EXPECT_EQ(seen_, (std::vector<std::string>{"a", "bc", ""}));
  Send(Message(1, "a") + Message(7, "last"));
  EXPECT_TRUE(Drain());
}

TEST_F(DrainTest, TakesAllThatWaitsAlsoAfterTheNews) {
  for (int i = 0; i < 5; ++i) Send(Message(7, "x"));
  EXPECT_TRUE(Drain());
  EXPECT_EQ(seen_.size(), 1u) << "one is enough";
  EXPECT_TRUE(IsEmpty());
  EXPECT_FALSE(Drain());
}

TEST_F(DrainTest, BrokenMessagesEndTheirDatagramOnly) {
  Send(Message(1, "longer than it is", 4096) + Message(7, ""));
  Send(Message(1, "shorter than its header", 3) + Message(7, ""));
  Send("abc");
  EXPECT_FALSE(Drain());
  EXPECT_TRUE(seen_.empty());
  Send(Message(1, "", 4096));
  Send(Message(7, ""));
  EXPECT_TRUE(Drain());
}

TEST_F(DrainTest, AnErrorNamesWhatItReceived) {
  const auto result =
      DrainNotifications(-1, [](uint16_t, std::string_view) { return true; }, "test notifications");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sys_errno(), EBADF);
  EXPECT_TRUE(result.error().message().starts_with("receive test notifications: "))
      << result.error().message();
}

}  // namespace
}  // namespace holdfast::sys
