// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_health.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/proxy/health_server.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "tests/fakes/fake_service_back_end.h"
#include "tests/support/eventually.h"
#include "tests/support/ip.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

using test_support::Ip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A port of loopback that is free at the moment.
uint16_t FreePort() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// Everything that comes back; "" when nobody listens.
std::string Ask(uint16_t port, const std::string& request) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "";
  // A connection that nobody took before the listener went is reset.
  const ssize_t sent = ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL);
  if (sent < 0 && (errno == ECONNRESET || errno == EPIPE)) return "";
  EXPECT_EQ(sent, static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) {
    reply.append(buffer, static_cast<size_t>(n));
  }
  return reply;
}
std::string Get(uint16_t port) { return Ask(port, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); }

model::Service LocalBalancer(uint16_t port) {
  model::Service service;
  service.name = {"default", "web"};
  service.type = model::ServiceType::kLoadBalancer;
  service.cluster_ips = {Ip("10.96.0.1")};
  service.ports = {{"", model::L4Protocol::kTcp, 80, 0}};
  service.external_local = true;
  service.health_check_port = port;
  return service;
}

model::EndpointSlice OneEndpoint(uint8_t flags) {
  model::EndpointSlice slice;
  slice.service = {"default", "web"};
  slice.name = "web-1";
  slice.ports = {{"", model::L4Protocol::kTcp, 8080}};
  slice.endpoints = {{Ip("10.88.0.2"), flags, 0}};
  return slice;
}

TEST(ServiceHealthTest, AnswersForLocalEndpointsUntilTheServiceGoes) {
  FakeServiceBackEnd back_end;
  const SystemClock clock;
  ServiceDriver driver(back_end, clock, {}, {});
  ASSERT_TRUE(driver.Start());
  const auto health =
      ServiceHealth::Start(driver, clock, {Ip("127.0.0.1")}, {}, [](const auto&) {});
  ASSERT_TRUE(health);
  const uint16_t port = FreePort();
  driver.Edit([&](netproxy::ServiceTracker& t) { t.SetService(LocalBalancer(port)); });
  ASSERT_TRUE(Eventually([&] { return Get(port).starts_with("HTTP/1.1 503"); }));
  constexpr uint8_t kReadyHere =
      model::kEndpointReady | model::kEndpointServing | model::kEndpointHere;
  driver.Edit([&](netproxy::ServiceTracker& t) { t.SetSlice(OneEndpoint(kReadyHere)); });
  ASSERT_TRUE(Eventually([&] { return Get(port).starts_with("HTTP/1.1 200"); }));
  const std::string reply = Get(port);
  EXPECT_THAT(reply, HasSubstr("X-Load-Balancing-Endpoint-Weight: 1\r\n"));
  EXPECT_THAT(reply,
              HasSubstr("\r\n\r\n{\"service\":{\"namespace\":\"default\",\"name\":\"web\"},"));
  const std::string head = Ask(port, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, ::testing::EndsWith("\r\n\r\n"));
  EXPECT_THAT(Ask(port, "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_EQ(Ask(port, std::string(20'000, 'x') + "\r\n\r\n"), "") << "no request at all";
  driver.Edit([](netproxy::ServiceTracker& t) { t.RemoveService({"default", "web"}); });
  ASSERT_TRUE(Eventually([&] { return Get(port).empty(); }));
}

TEST(HealthServerListenTest, AnAddressInUseIsToldOnceAndTriedAgain) {
  const uint16_t port = FreePort();
  UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  auto server = HealthServer::Start();
  ASSERT_TRUE(server) << server.error().message();
  std::mutex mutex;
  std::vector<std::string> told;
  (*server)->Listen({{{Ip("127.0.0.1"), port},
                      [](const std::string&) { return netproxy::HttpReply{200, {}, "here"}; }}},
                    [&](const std::string& why) {
                      const std::lock_guard lock(mutex);
                      told.push_back(why);
                    });
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return told.size();
  };
  ASSERT_TRUE(test_support::Eventually([&] { return count() > 0; }));
  // One try more, in vain, before the other lets go.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const auto freed = std::chrono::steady_clock::now();
  other.Reset();
  EXPECT_TRUE(
      test_support::Eventually([&] { return Get(port).find("here") != std::string::npos; }));
  EXPECT_LT(std::chrono::steady_clock::now() - freed, std::chrono::seconds(8)) << "every 2 s";
  const std::lock_guard lock(mutex);
  EXPECT_THAT(told, ElementsAre(StrCat("listen at 127.0.0.1:", port, ": Address already in use")));
}

TEST(ServiceHealthTest, IsUnhealthyWhenAChangeWaitsTooLong) {
  ServiceProxyHealth health;
  EXPECT_TRUE(IsHealthy(health, {std::chrono::seconds(1000)}));
  health.pending_since = BootTime{std::chrono::seconds(950)};
  EXPECT_TRUE(IsHealthy(health, {std::chrono::seconds(1000)}));
  health.pending_since = BootTime{std::chrono::seconds(940)};
  EXPECT_FALSE(IsHealthy(health, {std::chrono::seconds(1000)}));
}

TEST(ServiceHealthTest, ListensWhereNodePortsAre) {
  netproxy::TableOptions table;
  table.node_addresses = {Ip("10.0.0.1"), Ip("192.0.2.1"), Ip("2001:db8::1")};
  model::ServiceSettings settings;
  settings.node_port_ranges = {*Cidr::Parse("10.0.0.0/8"), *Cidr::Parse("::/0")};
  table.settings = std::make_shared<const model::ServiceSettings>(settings);
  EXPECT_THAT(ServiceHealth::ListenAddresses(table), ElementsAre(Ip("10.0.0.1"), Ip("::")));
}

}  // namespace
}  // namespace holdfast::agent
