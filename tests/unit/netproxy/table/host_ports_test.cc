// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/host_ports.h"

#include <gtest/gtest.h>

namespace holdfast::netproxy {
namespace {

using enum HostPort::Protocol;

const std::vector<IpAddress> kPod = {IpAddress::Parse("10.88.0.2").value(),
                                     IpAddress::Parse("fd00:88::2").value()};

std::vector<std::string> Texts(const std::vector<HostPort>& ports) {
  std::vector<std::string> out;
  const auto rows = HostPortRows(ports, kPod);
  for (const auto& row : *rows) {
    out.push_back(ToString(row) + " -> " + row.endpoint.ip.ToString() + " " +
                  std::to_string(row.endpoint.port));
  }
  return out;
}

TEST(HostPortRowsTest, NoHostIpMeansEveryAddressOfBothFamilies) {
  EXPECT_EQ(Texts({{"", 8080, 80, kTcp}}),
            (std::vector<std::string>{"tcp 0.0.0.0:8080 -> 10.88.0.2 80",
                                      "tcp [::]:8080 -> fd00:88::2 80"}));
}

TEST(HostPortRowsTest, HostIpGivesRowsOfItsFamilyOnly) {
  EXPECT_EQ(
      Texts({{"0.0.0.0", 1, 2, kUdp}, {"::", 3, 4, kSctp}, {"192.0.2.2", 5, 6, kTcp}}),
      (std::vector<std::string>{"udp 0.0.0.0:1 -> 10.88.0.2 2", "tcp 192.0.2.2:5 -> 10.88.0.2 6",
                                "sctp [::]:3 -> fd00:88::2 4"}));
}

TEST(HostPortRowsTest, RefusesWhatCannotWork) {
  EXPECT_EQ(HostPortRows({{"", 0, 80, kTcp}}, kPod).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(HostPortRows({{"", 80, 0, kTcp}}, kPod).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(HostPortRows({{"node", 80, 80, kTcp}}, kPod).error().message(),
            "host port 80: \"node\" is no IP address");
  const auto loopback = HostPortRows({{"::1", 80, 80, kTcp}}, kPod);
  EXPECT_EQ(loopback.error().code(), Code::kUnsupported);
  EXPECT_EQ(
      loopback.error().message(),
      "host port 80: host IP ::1 is IPv6's loopback address, whose packets Linux lets reach no "
      "pod (there is no route_localnet for IPv6); 127.0.0.1 works");
}

TEST(HostPortRowsTest, LoopbackIsToldFromOtherAddresses) {
  const auto has = [](const std::string& ip) {
    return HasLoopback(HostPortRows({{ip, 80, 80, kTcp}}, kPod).value());
  };
  EXPECT_TRUE(has("127.0.0.1"));
  EXPECT_TRUE(has("127.255.0.1"));
  for (const char* ip : {"", "0.0.0.0", "::", "192.0.2.2", "2001:db8::7f00:1"}) {
    EXPECT_FALSE(has(ip)) << ip;
  }
}

TEST(ClashTest, ByProtocolPortAndOverlappingAddress) {
  const auto row = [](const std::string& ip, uint16_t port, HostPort::Protocol protocol) {
    return HostPortRows({{ip, port, 80, protocol}}, kPod).value().front();
  };
  struct Case {
    model::HostPortRow a, b;
    bool clash;
  };
  const Case cases[] = {
      {row("", 80, kTcp), row("", 80, kTcp), true},
      {row("0.0.0.0", 80, kTcp), row("192.0.2.2", 80, kTcp), true},
      {row("192.0.2.2", 80, kTcp), row("192.0.2.2", 80, kTcp), true},
      {row("192.0.2.2", 80, kTcp), row("192.0.2.3", 80, kTcp), false},
      {row("192.0.2.2", 80, kTcp), row("192.0.2.2", 80, kUdp), false},
      {row("192.0.2.2", 80, kTcp), row("192.0.2.2", 81, kTcp), false},
      {row("0.0.0.0", 80, kTcp), row("::", 80, kTcp), false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Clash(c.a, c.b), c.clash) << ToString(c.a) << " and " << ToString(c.b);
    EXPECT_EQ(Clash(c.b, c.a), c.clash) << ToString(c.b) << " and " << ToString(c.a);
  }
}

}  // namespace
}  // namespace holdfast::netproxy
