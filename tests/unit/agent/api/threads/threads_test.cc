// SPDX-License-Identifier: Apache-2.0
// The acceptor's thread, without gRPC and protobuf, so that ThreadSanitizer sees every lock.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/grpc/acceptor.h"
#include "agent/api/grpc/listen.h"
#include "tests/support/eventually.h"

namespace holdfast::agent::api {
namespace {

using test_support::Eventually;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

auto SaysThatNoneIsFree() {
  return AnyOf("no descriptor is free", HasSubstr("too many open files"));
}

class ThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-api-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // -1 when nobody accepts.
  UniqueFd Connect() const {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (dir_ + "/api.sock").copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      socket.Reset();
    }
    return socket;
  }

  // On dir_'s socket, for who this test runs as; not started.
  std::unique_ptr<Acceptor> Make(
      ConnectionLimits limits, Acceptor::Serve serve,
      Acceptor::Refused refused = [](const access::Peer&, const std::string&) {},
      Acceptor::Rest rest = [] { return true; }) {
    auto socket = ApiSocket::Listen(dir_ + "/api.sock", 0);
    EXPECT_TRUE(socket.has_value());
    if (!socket) return nullptr;
    socket_.emplace(std::move(*socket));
    auto acceptor = Acceptor::Create(
        socket_->fd(), access::RoleTable{.own_uid = ::geteuid(), .groups = {}}, limits,
        std::move(serve), std::move(refused), [] {}, std::move(rest));
    EXPECT_TRUE(acceptor.has_value());
    return acceptor ? std::move(*acceptor) : nullptr;
  }

  std::string dir_;
  std::optional<ApiSocket> socket_;  // outlives the acceptor of a test
};

TEST_F(ThreadsTest, TheAcceptorKnowsItsPeersAndCountsThemDown) {
  std::mutex mutex;
  std::vector<UniqueFd> served;
  std::atomic<int> refused = 0;
  const auto acceptor = Make(
      ConnectionLimits{.per_uid = 10},
      [&](UniqueFd connection, access::OperationSet permitted) -> Result<void> {
        EXPECT_EQ(permitted, access::OperationSet::All());
        const std::lock_guard lock(mutex);
        served.push_back(std::move(connection));
        return {};
      },
      [&](const access::Peer&, const std::string&) { ++refused; });
  ASSERT_NE(acceptor, nullptr);
  ASSERT_TRUE(acceptor->Start());
  std::vector<UniqueFd> clients;
  // None of them has a call at work: the last five take the places of the first.
  for (int i = 0; i < 15; ++i) clients.push_back(Connect());
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return served.size() == 15;
  }));
  EXPECT_EQ(acceptor->ConnectionCount(), 10u);
  EXPECT_EQ(refused, 0);
  {
    const std::lock_guard lock(mutex);
    const auto peer = acceptor->Peers().Find("fd:" + std::to_string(served.front().get()));
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->uid, ::geteuid());
    EXPECT_EQ(peer->pid, ::getpid());
    EXPECT_FALSE(acceptor->Peers().Find("fd:999999").has_value());
    EXPECT_FALSE(acceptor->Peers().Find("unix:").has_value());
  }
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return acceptor->ConnectionCount() == 0; }));
  acceptor->Stop();
}

// Whoever stops it ends next what it serves with.
TEST_F(ThreadsTest, NobodyIsServedOnceItHasStoppedAccepting) {
  std::atomic<bool> serving = false, stopped = false;
  std::atomic<int> served = 0;
  const auto acceptor =
      Make(ConnectionLimits{}, [&](UniqueFd, access::OperationSet) -> Result<void> {
        serving = true;
        // As long as a busy node may take for it.
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        while (std::chrono::steady_clock::now() < end) EXPECT_FALSE(stopped);
        ++served;
        return {};
      });
  ASSERT_NE(acceptor, nullptr);
  ASSERT_TRUE(acceptor->Start());
  const UniqueFd first = Connect();
  ASSERT_TRUE(Eventually([&] { return serving.load(); }));
  const UniqueFd second = Connect();
  acceptor->StopAccepting();
  stopped = true;
  const int by_then = served;
  EXPECT_GE(by_then, 1);
  const UniqueFd third = Connect();
  acceptor->Stop();
  EXPECT_EQ(served, by_then);
}

TEST_F(ThreadsTest, ItTellsWhenNobodyHasBeenConnectedForAWhile) {
  constexpr std::chrono::milliseconds rest(50);
  std::mutex mutex;
  std::vector<UniqueFd> connections;
  std::atomic<int> rested = 0;
  std::atomic<bool> is_busy = false;
  const auto acceptor = Make(
      ConnectionLimits{.rest = rest},
      [&](UniqueFd connection, access::OperationSet) -> Result<void> {
        const std::lock_guard lock(mutex);
        connections.push_back(std::move(connection));
        return {};
      },
      [](const access::Peer&, const std::string&) {},
      [&] {
        ++rested;
        return !is_busy;
      });
  ASSERT_NE(acceptor, nullptr);
  ASSERT_TRUE(acceptor->Start());
  EXPECT_TRUE(Eventually([&] { return rested == 1; }));
  const auto leave = [&](UniqueFd& client) {  // as gRPC does, its server hangs up when it did
    client.Reset();
    const std::lock_guard lock(mutex);
    connections.pop_back();
  };
  UniqueFd first = Connect(), second = Connect();
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return connections.size() == 2;
  }));
  leave(second);
  ASSERT_TRUE(Eventually([&] { return acceptor->ConnectionCount() == 1; }));
  // One is still there: that it is not called then has no event to wait for.
  std::this_thread::sleep_for(4 * rest);
  EXPECT_EQ(rested, 1);
  is_busy = true;
  leave(first);
  EXPECT_TRUE(Eventually([&] { return rested >= 3; })) << "it is not asked again";
  is_busy = false;
  acceptor->StopAccepting();
  const int by_then = rested;
  // That it is not called any more has no event to wait for.
  std::this_thread::sleep_for(4 * rest);
  EXPECT_EQ(rested, by_then) << "called although it has stopped";
}

TEST_F(ThreadsTest, WithoutAFreeDescriptorAClientIsClosedAndTheNextIsServed) {
  std::atomic<int> served = 0;
  std::mutex mutex;
  std::vector<std::string> reasons;
  const auto acceptor = Make(
      ConnectionLimits{},
      [&](UniqueFd, access::OperationSet) -> Result<void> {
        ++served;
        return {};
      },
      [&](const access::Peer&, const std::string& reason) {
        const std::lock_guard lock(mutex);
        reasons.push_back(reason);
      });
  ASSERT_NE(acceptor, nullptr);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  // Both clients first; nobody accepts yet. Then everything else below a low limit is taken.
  const UniqueFd first = Connect();
  const UniqueFd second = Connect();
  ASSERT_TRUE(first && second);
  const rlimit low{.rlim_cur = 64, .rlim_max = usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<UniqueFd> taken;
  while (true) {
    UniqueFd copy(::fcntl(socket_->fd(), F_DUPFD_CLOEXEC, 0));
    if (!copy) break;
    taken.push_back(std::move(copy));
  }
  ASSERT_TRUE(acceptor->Start());
  for (const UniqueFd& client : {std::cref(first), std::cref(second)}) {
    pollfd fd{.fd = client.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&fd, 1, 10'000), 1);
  }
  taken.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(served, 0);
  const UniqueFd third = Connect();
  EXPECT_TRUE(Eventually([&] { return served == 1; }));
  acceptor->Stop();
  // A sanitizer's own thread opens and closes files: the one that it gives back is enough to
  // accept with, and then there is none for the client's pidfd.
  EXPECT_THAT(reasons, ElementsAre(SaysThatNoneIsFree(), SaysThatNoneIsFree()));
}

}  // namespace
}  // namespace holdfast::agent::api
