// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/saved.h"

#include <gtest/gtest.h>

namespace holdfast::netproxy::iptables {
namespace {

TEST(Canonical, WhatWeWriteEqualsWhatTheKernelShows) {
  const std::pair<const char*, const char*> kSame[] = {
      {R"(-m comment --comment "a/b cluster IP" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j X)",
       R"(-d 10.96.0.1/32 -p tcp -m comment --comment "a/b cluster IP" -m tcp --dport 80 -j X)"},
      {"-m comment --comment a/b -s fd00::1 -j X",
       R"(-s fd00::1/128 -m comment --comment "a/b" -j X)"},
      {"-m statistic --mode random --probability 0.3333333333 -j X",
       "-m statistic --mode random --probability 0.33333333349 -j X"},
      {"-j MARK --or-mark 0x4000", "-j MARK --set-xmark 0x4000/0x4000"},
      {"-j MARK --xor-mark 0x4000", "-j MARK --set-xmark 0x4000/0x0"},
      {"-m recent --name A --rcheck --seconds 60 --reap -j A",
       "-m recent --rcheck --seconds 60 --reap --name A --mask 255.255.255.255 --rsource -j A"},
      {"-d 10.0.0.1 -j REJECT", "-d 10.0.0.1/32 -j REJECT --reject-with icmp-port-unreachable"},
      {"-m tcp -p tcp -d 10.0.0.1 --dport 80 ! -s 10.0.0.0/8 -j X",
       "! -s 10.0.0.0/8 -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j X"},
  };
  for (const auto& [ours, kernels] : kSame) EXPECT_EQ(Canonical(ours), Canonical(kernels)) << ours;
}

TEST(Canonical, OtherRulesStayOthers) {
  const std::pair<const char*, const char*> kDifferent[] = {
      {"-s 10.0.0.0/8 -j X", "! -s 10.0.0.0/8 -j X"},
      {"-s 10.0.0.1 -j X", "-d 10.0.0.1 -j X"},
      {"-d 10.0.0.1 -j REJECT", "-d 10.0.0.1 -j REJECT --reject-with tcp-reset"},
      {"-j MARK --or-mark 0x4000", "-j MARK --xor-mark 0x4000"},
      {"-m statistic --mode random --probability 0.5 -j X",
       "-m statistic --mode random --probability 0.4 -j X"},
      {"-m comment --comment a -j X", "-j X"},
  };
  for (const auto& [a, b] : kDifferent) EXPECT_NE(Canonical(a), Canonical(b)) << a;
}

TEST(TargetOf, IsWhatFollowsTheJump) {
  EXPECT_EQ(TargetOf(R"(-m comment --comment "-j NO" -s 1.1.1.1/32 -j KUBE-X)"), "KUBE-X");
  EXPECT_EQ(TargetOf("-j DNAT --to-destination 10.0.0.1:80"), "DNAT");
  EXPECT_EQ(TargetOf("-s 10.0.0.0/8"), "");
}

TEST(ParseSaved, TakesOurTablesOnly) {
  const auto saved = ParseSaved(
      "# Generated\n*raw\n:PREROUTING ACCEPT [1:2]\n-A PREROUTING -j DROP\nCOMMIT\n"
      "*nat\n:KUBE-X - [0:0]\n:OUTPUT ACCEPT [7:420]\n-A OUTPUT -j KUBE-X\n-A OUTPUT\nCOMMIT\n");
  ASSERT_TRUE(saved.has_value());
  const SavedTable expected = {{"KUBE-X", {}}, {"OUTPUT", {"-j KUBE-X", ""}}};
  EXPECT_EQ(saved->tables[Index(Table::kNat)], expected);
  EXPECT_TRUE(saved->tables[Index(Table::kFilter)].empty());
}

TEST(ParseSaved, TableThatOnlyNftShows) {
  const auto saved = ParseSaved("# Table `nat' is incompatible, use 'nft' tool.\n");
  ASSERT_FALSE(saved.has_value());
  EXPECT_EQ(saved.error().code(), Code::kConflict);
}

}  // namespace
}  // namespace holdfast::netproxy::iptables
