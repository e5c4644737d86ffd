// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "netproxy/announce/frames.h"
#include "netproxy/podnet/record.h"
#include "tests/fuzz/netproxy/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, Frame) {
  namespace announce = netproxy::announce;
  announce::Speaker speaker;
  speaker.mac = {2, 0, 0, 0, 0, 7};
  speaker.link_local = IpAddress::Parse("fe80::7").value();
  const auto text = [](const announce::Frame& frame) {
    return std::string(frame.begin(), frame.end());
  };
  const auto v4 = IpAddress::Parse("192.0.2.7").value();
  const auto v6 = IpAddress::Parse("2001:db8::7").value();
  Replay(FuzzFrame,
         {text(announce::Ask(v4, speaker, std::nullopt)),
          text(announce::Ask(v6, speaker, std::nullopt)), text(announce::Announcement(v4, speaker)),
          text(announce::Announcement(v6, speaker))});
}

TEST(FuzzSmokeTest, SavedRules) {
  Replay(FuzzSavedRules,
         {"*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n"
          "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n"
          "-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -m statistic --mode random "
          "--probability 0.50000000000 -j KUBE-SVC-X\nCOMMIT\n"},
         " -\"\\\n!/:*#A");
}

TEST(FuzzSmokeTest, AddressRecord) {
  netproxy::PodRecord record;
  record.uid = PodUid("uid-1");
  record.pod_namespace = "default";
  record.pod_name = "web";
  record.addresses = {IpAddress::Parse("10.88.0.2").value(), IpAddress::Parse("fd00::2").value()};
  record.host_ports.resize(1);
  Replay(FuzzAddressRecord, {netproxy::FormatRecord(record)}, " =,\n/:.");
}

}  // namespace
}  // namespace holdfast::fuzz
