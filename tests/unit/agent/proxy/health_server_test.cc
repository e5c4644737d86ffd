// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/health_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "holdfast/base/unique_fd.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

constexpr size_t kMostConnections = 128;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd NewSocket() { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool Connect(const UniqueFd& socket, uint16_t port) {
  const sockaddr_in address = Loopback(port);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// What a GET on the connected `socket` is answered with, "" when nothing comes for 5 s.
std::string Ask(const UniqueFd& socket) {
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char buffer[512];
  pollfd readable{socket.get(), POLLIN, 0};
  while (::poll(&readable, 1, 5000) == 1) {
    const ssize_t count = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (count <= 0) break;
    answer.append(buffer, static_cast<size_t>(count));
  }
  return answer;
}

bool IsServed(uint16_t port) {
  const UniqueFd socket = NewSocket();
  return Connect(socket, port) && Ask(socket).starts_with("HTTP/1.1 200");
}

std::chrono::microseconds ProcessorTime() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

class HealthServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = HealthServer::Start();
    ASSERT_TRUE(server);
    server_ = std::move(*server);
    for (uint16_t& port : ports_) port = FreePort();
  }
  // Nobody has it now; whoever takes it before us makes the test fail, not lie.
  static uint16_t FreePort() {
    const UniqueFd socket = NewSocket();
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  void Listen(size_t count) {
    HealthServer::Listeners listeners;
    for (size_t i = 0; i < count; ++i) {
      listeners[{*IpAddress::Parse("127.0.0.1"), ports_[i]}] = [](const std::string&) {
        return netproxy::HttpReply{200, {}, "ok"};
      };
    }
    server_->Listen(std::move(listeners), [this](const std::string& why) {
      const std::lock_guard lock(mutex_);
      told_.push_back(why);
    });
  }
  std::vector<std::string> Told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  std::unique_ptr<HealthServer> server_;
  uint16_t ports_[2] = {};
  std::mutex mutex_;
  std::vector<std::string> told_;
};

// 256 idle clients every 5 s once made load balancers take the node out.
TEST_F(HealthServerTest, IdleClientsKeepNobodyOut) {
  Listen(2);
  ASSERT_TRUE(Eventually([&] { return IsServed(ports_[0]); }));
  std::vector<UniqueFd> idle;
  for (size_t i = 0; i < 2 * kMostConnections + 10; ++i) {
    idle.push_back(NewSocket());
    ASSERT_TRUE(Connect(idle.back(), ports_[0]));
  }
  EXPECT_TRUE(IsServed(ports_[0]));
  EXPECT_TRUE(IsServed(ports_[1]));
  // The longest there made room; the youngest are served when they ask after all.
  char byte = 0;
  EXPECT_LE(::recv(idle.front().get(), &byte, 1, 0), 0);
  EXPECT_NE(Ask(idle.back()), "");
}

TEST_F(HealthServerTest, WithoutDescriptorsItWaitsInsteadOfSpinning) {
  Listen(1);
  ASSERT_TRUE(Eventually([&] { return IsServed(ports_[0]); }));
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(NewSocket());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(clients.front().get()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (const UniqueFd& client : clients) EXPECT_TRUE(Connect(client, ports_[0]));
  const auto began = ProcessorTime();
  ::usleep(1'000'000);
  const auto used = ProcessorTime() - began;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(used, std::chrono::milliseconds(200));
  for (const UniqueFd& client : clients) EXPECT_TRUE(Ask(client).starts_with("HTTP/1.1 200"));
}

// A former agent that was killed just now still has the address for a moment.
TEST_F(HealthServerTest, AnAddressInUseIsWaitedForAndToldOnlyWhenThatTakesLong) {
  UniqueFd holder = NewSocket();
  const sockaddr_in address = Loopback(ports_[0]);
  ASSERT_EQ(::bind(holder.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(holder.get(), 1), 0);
  Listen(1);
  ::usleep(150'000);
  EXPECT_TRUE(Told().empty()) << Told().front();
  ASSERT_TRUE(Eventually([&] { return !Told().empty(); }));
  EXPECT_EQ(Told().size(), 1u);
  holder.Reset();
  EXPECT_TRUE(Eventually([&] { return IsServed(ports_[0]); }));
  EXPECT_EQ(Told().size(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
