// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

namespace holdfast::sys {
namespace {

// Sends one packet on each socket that it is given, and closes it.
class Sender {
 public:
  ~Sender() {
    done_ = true;
    thread_.join();
  }
  void Give(UniqueFd socket) { socket_ = socket.Release(); }

 private:
  void Run() {
    while (!done_) {
      const UniqueFd socket(socket_.exchange(-1));
      if (!socket) {
        std::this_thread::yield();  // to the receiver, where there is one processor for both
        continue;
      }
      EXPECT_TRUE(SendPacket(socket.get(), "last words"));
    }
  }

  std::atomic<int> socket_ = -1;
  std::atomic<bool> done_ = false;
  std::thread thread_{&Sender::Run, this};
};

// The kernel tells the end first once in some ten thousand times: it looks at the queue, and then at the peer.
TEST(PacketTest, WhatWasSentComesBeforeTheEnd) {
  Sender sender;
  for (int i = 0; i < 100'000; ++i) {
    auto ends = SeqpacketPair();
    ASSERT_TRUE(ends);
    ASSERT_EQ(::fcntl(ends->first.get(), F_SETFL, O_NONBLOCK), 0);
    sender.Give(std::move(ends->second));
    auto packet = ReceivePacket(ends->first.get());
    while (!packet && packet.error().sys_errno() == EAGAIN) {
      std::this_thread::yield();
      packet = ReceivePacket(ends->first.get());
    }
    ASSERT_TRUE(packet) << packet.error().message();
    ASSERT_EQ(packet->data, "last words") << "round " << i;
  }
}

TEST(PacketTest, SoItDoesWhenThePeerLeftSomethingUnread) {
  for (const bool sends : {true, false}) {
    auto ends = SeqpacketPair();
    ASSERT_TRUE(ends);
    ASSERT_TRUE(SendPacket(ends->first.get(), "unread"));
    if (sends) {
      ASSERT_TRUE(SendPacket(ends->second.get(), "last words"));
    }
    ends->second.Reset();
    if (sends) {
      const auto packet = ReceivePacket(ends->first.get());
      ASSERT_TRUE(packet) << packet.error().message();
      EXPECT_EQ(packet->data, "last words");
    }
    const auto end = ReceivePacket(ends->first.get());
    ASSERT_TRUE(end) << end.error().message();
    EXPECT_TRUE(end->data.empty());
  }
}

}  // namespace
}  // namespace holdfast::sys
