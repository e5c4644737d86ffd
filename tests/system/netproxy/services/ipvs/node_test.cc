// SPDX-License-Identifier: Apache-2.0
// What IPVS wants of the node itself: kernel parameters, neighbours, addresses, schedulers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <stop_token>
#include <thread>

#include "holdfast/sys/netns.h"
#include "holdfast/sys/sysctl.h"
#include "netproxy/services/ipvs/probe.h"
#include "tests/system/netproxy/services/ipvs/ipvs_world.h"

namespace holdfast::netproxy {
namespace {

using model::L4Protocol;
using Clock = std::chrono::steady_clock;

using IpvsNode = IpvsWorld;

TEST_F(IpvsNode, CleanUpRestoresWhatWasBefore) {
  const std::vector<std::string> names = {"net/ipv4/vs/conntrack", "net/ipv4/vs/expire_nodest_conn",
                                          "net/ipv4/vs/expire_quiescent_template",
                                          "net/ipv4/conf/all/arp_ignore",
                                          "net/ipv4/conf/all/arp_announce"};
  const auto values = [&] {
    std::vector<std::string> out;
    for (const std::string& name : names) out.push_back(sys::ReadSysctl(name).value_or("?"));
    return out;
  };
  const auto before = values();
  auto kernel = ipvs::IpvsKernel::Open();
  ASSERT_OK(kernel);
  const auto timeouts = kernel->GetTimeouts();
  ASSERT_OK(timeouts);
  options_.strict_arp = true;
  options_.tcp_timeout = std::chrono::seconds(1234);
  options_.udp_timeout = std::chrono::seconds(77);
  Restart();
  Apply(true, AllRows(false));
  EXPECT_EQ(values(), (std::vector<std::string>{"1", "1", "1", "1", "2"}));
  EXPECT_EQ(kernel->GetTimeouts().value_or(ipvs::Timeouts{}),
            (ipvs::Timeouts{1234, timeouts->tcp_fin, 77}));
  Restart();
  Apply(true, AllRows(false));
  // What kube-proxy left, by a process that never applied anything.
  Command("ip link add kube-ipvs0 type dummy && ip address add 10.96.7.7/32 dev kube-ipvs0");
  ipvs::Operation leftover;
  leftover.key.protocol = 6;
  leftover.key.address = Ip("10.96.7.7");
  leftover.key.port = 80;
  leftover.config.scheduler = "rr";
  ASSERT_EQ(kernel->Send(std::array{leftover}).value_or(std::vector<int>{1}), std::vector<int>{0});
  ASSERT_OK(ipvs::IpvsBackEnd::CleanUp(options_));
  EXPECT_EQ(values(), before);
  EXPECT_EQ(kernel->GetTimeouts().value_or(ipvs::Timeouts{}), *timeouts);
  EXPECT_TRUE(Observe().empty());
  EXPECT_EQ(Command("ip -o link").find("ipvs"), std::string::npos);
  EXPECT_EQ(Command("nft list ruleset"), "");
}

// Two nodes on one link have the address; each would answer who asks for it.
TEST_F(IpvsNode, StrictArpKeepsTheNodeFromAnsweringForServiceAddresses) {
  const std::string address = AddressOf("lb:20", false);
  // Who answers the question for the address on the link; "" for nobody.
  const auto neighbour = [&] {
    std::string out;
    EXPECT_OK(sys::RunInNetworkNamespace(outside_.get(), [&]() -> Result<void> {
      Command(StrCat("ip neigh flush dev eth0; ip route replace ", address, " dev eth0"));
      const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      SockAddr to = SockAddr::Of(address, 9);
      char byte = 'x';
      ::sendto(fd.get(), &byte, 1, 0, to.get(), to.size);
      const auto end = Clock::now() + std::chrono::seconds(20);
      do {
        ::poll(nullptr, 0, 50);
        out = Command(StrCat("ip neigh show to ", address));
      } while (out.find("lladdr") == std::string::npos && out.find("FAILED") == std::string::npos &&
               Clock::now() < end);
      return {};
    }));
    return out;
  };
  const std::string mac = "02:00:00:00:00:02";
  Apply(true, AllRows(false));
  EXPECT_NE(neighbour().find(mac), std::string::npos) << "without strict ARP it answers";
  options_.strict_arp = true;
  Restart();
  Apply(true, AllRows(false));
  EXPECT_EQ(neighbour().find(mac), std::string::npos);
  // The one that announces it (MetalLB, kube-vip) has it on the link, and is the only one to
  // answer.
  Command("ip address add " + address + "/32 dev up0");
  EXPECT_NE(neighbour().find(mac), std::string::npos);
  ASSERT_OK(back_end_->Repair());
  EXPECT_EQ(Try("outside", address, 80).endpoint, "c") << "and serves it";
}

TEST_F(IpvsNode, AnAddressThatTheNodeCannotHaveRefusesItsService) {
  Apply(true, {RowOf({"t/web", L4Protocol::kTcp, {"a"}, "vip:10"}, false)});
  ASSERT_OK(sys::WriteSysctl("net/ipv6/conf/holdfast-ipvs/disable_ipv6", "1"));
  const ServiceApplied applied =
      Apply(false, {RowOf({"t/six", L4Protocol::kTcp, {"a"}, "vip:11"}, true)});
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_EQ(applied.refused[0].key.name, "t/six");
  EXPECT_NE(applied.refused[0].reason.find("fd00:96::11"), std::string::npos)
      << applied.refused[0].reason;
  EXPECT_EQ(Reached("client", "10.96.0.10", 80, 5), (Names{"a"}));
  ASSERT_OK(sys::WriteSysctl("net/ipv6/conf/holdfast-ipvs/disable_ipv6", "0"));
  EXPECT_TRUE(
      Apply(false, {RowOf({"t/six", L4Protocol::kTcp, {"a"}, "vip:11"}, true)}).refused.empty());
  EXPECT_EQ(Reached("client", "fd00:96::11", 80, 5), (Names{"a"}));
}

TEST_F(IpvsNode, EverySchedulerServes) {
  for (const char* scheduler :
       {"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq"}) {
    options_.scheduler = scheduler;
    ASSERT_NO_FATAL_FAILURE(Restart()) << scheduler;
    Apply(true, {RowOf({"t/web", L4Protocol::kTcp, {"a", "b"}, "vip:10"}, false)});
    EXPECT_EQ(Observe().begin()->second.config.scheduler, scheduler);
    for (const std::string& met : Reached("client", "10.96.0.10", 80, 4)) {
      EXPECT_TRUE(met == "a" || met == "b") << scheduler << ": " << met;
    }
  }
  options_.scheduler = "mh";
  options_.scheduler_flags = {"mh-port", "mh-fallback"};
  ASSERT_NO_FATAL_FAILURE(Restart());
  Apply(true, {RowOf({"t/web", L4Protocol::kTcp, {"a", "b"}, "vip:10"}, false)});
  EXPECT_EQ(Observe().begin()->second.config.flags, ipvs::kOwnFlag | 0x18u);
  EXPECT_EQ(Reached("client", "10.96.0.10", 80), (Names{"a", "b"})) << "by the client's port";
}

class IpvsKernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
  }
};

// The kernel that loads it with IPVS' lock held would stand still with the first namespace that goes (probe.cc).
TEST_F(IpvsKernelTest, ASchedulerIsLoadedWhileNamespacesGo) {
  ipvs::IpvsOptions options;
  options.scheduler = "lblcr";
  const auto there = ipvs::CheckKernel(options);
  if (!there && there.error().code() == Code::kNotFound) GTEST_SKIP() << "kernel lacks ip_vs_lblcr";
  ASSERT_TRUE(there) << there.error().message();
  std::jthread others([](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(sys::NewNetworkNamespace());
  });
  for (int i = 0; i < 20; ++i) {
    // Ignored: somebody uses it, and then nothing is loaded this time.
    (void)::syscall(SYS_delete_module, "ip_vs_lblcr", O_NONBLOCK);
    const auto checked = ipvs::CheckKernel(options);
    EXPECT_TRUE(checked) << checked.error().message();
  }
}

// Whatever this kernel has: what is missing is named, and clean-up needs nothing of it.
TEST_F(IpvsKernelTest, WhatIsMissingIsNamedAndCleanUpWorksWithoutIt) {
  ipvs::IpvsOptions options;
  for (const char* scheduler : {"rr", "ovf"}) {
    options.scheduler = scheduler;
    const auto checked = ipvs::CheckKernel(options);
    if (checked) continue;
    EXPECT_EQ(checked.error().code(), Code::kNotFound);
    EXPECT_NE(checked.error().message().find(StrCat("ip_vs_", scheduler)), std::string::npos)
        << checked.error().message();
    EXPECT_FALSE(ipvs::IpvsBackEnd::Open(options));
  }
  options.scheduler = "fastest";
  EXPECT_EQ(ipvs::CheckKernel(options).error().code(), Code::kInvalidArgument);
  Command("nft add table ip holdfast-ipvs");
  EXPECT_OK(ipvs::IpvsBackEnd::CleanUp(options));
  EXPECT_EQ(Command("nft list ruleset"), "");
}

}  // namespace
}  // namespace holdfast::netproxy
