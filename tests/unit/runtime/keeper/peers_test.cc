// SPDX-License-Identifier: Apache-2.0
// Who is reached, and on which connection.
#include "runtime/keeper/client/peers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/wire.h"

namespace holdfast::runtime::keeper {
namespace {

class PeersTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  UniqueFd Listen(const std::string& name) const {
    auto listener = sys::ListenSeqpacket(StrCat(directory_, "/", name), 0600);
    EXPECT_TRUE(listener);
    EXPECT_EQ(::fcntl(listener->get(), F_SETFL, O_NONBLOCK), 0);
    return std::move(*listener);
  }
  // Invalid: nobody has connected.
  static UniqueFd Accepted(const UniqueFd& listener) {
    auto accepted = sys::Accept(listener.get());
    return accepted ? std::move(*accepted) : UniqueFd();
  }

  // Leaves the connection of a call behind; the server's end of it.
  static UniqueFd CallOnce(Peers& peers, Peer peer, const UniqueFd& listener) {
    auto connection = peers.Connect(peer);
    EXPECT_TRUE(connection);
    UniqueFd server = Accepted(listener);
    EXPECT_TRUE(server);
    if (connection) peers.Keep(peer, std::move(*connection));
    return server;
  }

  std::string directory_ = "/tmp/holdfast-peers-XXXXXX";
};

TEST_F(PeersTest, TheNextCallHasTheConnectionOfTheOneBefore) {
  Peers peers(directory_);
  const UniqueFd listener = Listen(kHolderSocket);
  const UniqueFd server = CallOnce(peers, Peer::kHolder, listener);

  const auto second = peers.Connect(Peer::kHolder);
  ASSERT_TRUE(second);
  EXPECT_FALSE(Accepted(listener));
  ASSERT_TRUE(SendMessage(second->socket.get(), MessageType::kPing));
  EXPECT_TRUE(ReceiveMessage(server.get()));
  // Meanwhile it is that call's alone.
  const auto beside = peers.Connect(Peer::kHolder);
  ASSERT_TRUE(beside);
  EXPECT_TRUE(Accepted(listener));
}

TEST_F(PeersTest, AConnectionThatItsServerClosedIsNotUsed) {
  Peers peers(directory_);
  const UniqueFd listener = Listen(kLoggerSocket);
  UniqueFd server = CallOnce(peers, Peer::kLogger, listener);
  server.Reset();
  ASSERT_TRUE(peers.Connect(Peer::kLogger));
  EXPECT_TRUE(Accepted(listener));
}

// An answer to nobody would be taken for that of the next call.
TEST_F(PeersTest, AConnectionOnWhichSomethingIsLeftIsNotUsed) {
  Peers peers(directory_);
  const UniqueFd listener = Listen(kHolderSocket);
  const UniqueFd server = CallOnce(peers, Peer::kHolder, listener);
  ASSERT_TRUE(SendMessage(server.get(), MessageType::kOk));
  ASSERT_TRUE(peers.Connect(Peer::kHolder));
  EXPECT_TRUE(Accepted(listener));
}

TEST_F(PeersTest, TheNewestLauncherIsReachedAndNotTheOneOfTheLastCall) {
  Peers peers(directory_);
  const UniqueFd old = Listen(LauncherSocketName(9));
  const UniqueFd server = CallOnce(peers, Peer::kLauncher, old);
  const UniqueFd newest = Listen(LauncherSocketName(10));
  const auto second = peers.Connect(Peer::kLauncher);
  ASSERT_TRUE(second);
  EXPECT_TRUE(Accepted(newest));
  EXPECT_EQ(second->path, StrCat(directory_, "/", LauncherSocketName(10)));
}

TEST_F(PeersTest, NobodyIsThere) {
  Peers peers(directory_);
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher, Peer::kLogger}) {
    const auto connection = peers.Connect(peer);
    ASSERT_FALSE(connection);
    EXPECT_TRUE(connection.error().code() == Code::kUnavailable ||
                connection.error().sys_errno() == ENOENT)
        << connection.error().message();
  }
}

}  // namespace
}  // namespace holdfast::runtime::keeper
