// SPDX-License-Identifier: Apache-2.0
// The plugins of Debian's containernetworking-plugins: bridge, host-local, portmap, bandwidth, firewall.
#include <algorithm>

#include "holdfast/sys/rtnl.h"
#include "tests/system/agent/cni/cni_fixture.h"

namespace holdfast::agent {
namespace {

using netproxy::AnyOf;
using netproxy::Connect;
using netproxy::Socket;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DebianPlugins : public CniFixture {
 protected:
  void SetUp() override {
    CniFixture::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(std::filesystem::exists("/usr/lib/cni/bridge"))
        << "packaging/install-deps --tests installs containernetworking-plugins";
    MakeOutside();
    scripts_.Configure("10-pods.conflist",
                       StrCat(R"({"cniVersion":"1.0.0","name":"pods","plugins":[
      {"type":"bridge","bridge":"cni0","isDefaultGateway":true,"ipMasq":true,"hairpinMode":true,
       "ipam":{"type":"host-local","dataDir":")",
                              addresses(), R"(","ranges":[[{"subnet":"10.77.0.0/24"}],
                              [{"subnet":"fd00:77::/64"}]]}},
      {"type":"portmap","capabilities":{"portMappings":true}},
      {"type":"firewall","backend":"iptables"}]})"));
    Open();
    ASSERT_EQ(network_->NotReadyBecause(), "");
  }
  std::string addresses() const { return scripts_.file("addresses"); }
  std::vector<std::string> HeldAddresses() const {
    std::vector<std::string> held;
    for (const std::string& name : Names(addresses() + "/pods")) {
      if (name != "lock" && !name.starts_with("last_reserved_ip")) held.push_back(name);
    }
    return held;
  }
  static void MakeOutside(NsFd& outside) {
    auto made = sys::NewNetworkNamespace();
    ASSERT_OK(made);
    outside = std::move(*made);
    auto node = sys::Rtnl::Open();
    ASSERT_OK(node);
    ASSERT_OK(node->AddVeth({.name = "up0",
                             .mac = {2, 0, 0, 0, 0, 2},
                             .mtu = 1500,
                             .peer_netns = outside.get(),
                             .peer_name = "eth0",
                             .peer_mac = {2, 0, 0, 0, 0, 1}}));
    Command("ip addr add 192.0.2.2/24 dev up0; ip link set up0 up");
    auto out = sys::Rtnl::OpenIn(outside.get());
    ASSERT_OK(out);
    const int eth0 = out->GetLink("eth0")->index;
    ASSERT_OK(out->SetLinkUp(eth0));
    ASSERT_OK(out->EnsureAddress({*IpAddress::Parse("192.0.2.1"), 24, eth0}));
  }
  void MakeOutside() { MakeOutside(outside_); }
  static std::string KernelState() {
    // Without the times, and the counts of what the kernel may send by itself at any moment.
    const char rules[] = " | sed '/^#/d; s/ \\[[0-9:]*\\]$//'";
    return Command("ip -o link show type veth") + Command(StrCat("iptables-save -t nat", rules)) +
           Command(StrCat("iptables-save -t filter", rules)) +
           Command(StrCat("ip6tables-save -t nat", rules)) +
           // Whether the bridge has noticed yet that it has no port is its own matter.
           Command("(ip route; ip -6 route show dev cni0) | sed 's/ linkdown//; s/ *$//'");
  }

  NsFd outside_;
};

TEST_F(DebianPlugins, TwoPodsReachEachOtherByBothFamilies) {
  const Pod a = MakePod("a");
  const Pod b = MakePod("b");
  ASSERT_EQ(a.ips.size(), 2u);
  EXPECT_THAT(a.ips[0], testing::StartsWith("10.77.0."));
  EXPECT_THAT(a.ips[1], testing::StartsWith("fd00:77::"));
  EXPECT_NE(a.ips, b.ips);
  EXPECT_EQ(network_->Addresses(a.request.uid), a.ips);
  for (const std::string& ip : b.ips) {
    const UniqueFd server = Socket(b.netns.get(), SOCK_STREAM, AnyOf(ip), 80, true);
    EXPECT_EQ(Connect(a.netns.get(), ip, 80, server.get()).error, "") << ip;
    EXPECT_EQ(Connect(b.netns.get(), ip, 80, server.get()).error, "") << "itself, over loopback";
  }
}

TEST_F(DebianPlugins, AHostPortAnswersFromOutside) {
  const Pod pod = MakePod("web", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  EXPECT_THAT(network_->LeftOut(pod.request), IsEmpty());
  const UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
  const auto outcome = Connect(outside_.get(), "192.0.2.2", 8080, server.get());
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.source, "192.0.2.1") << "the client's own";
  ASSERT_OK(network_->Teardown(pod.request.uid));
  EXPECT_NE(Connect(outside_.get(), "192.0.2.2", 8080, -1, netproxy::kRefusalMs).error, "");
}

TEST_F(DebianPlugins, NothingIsLeftAfterDel) {
  {  // what the first pod of a node makes for all of them stays
    const Pod first = MakePod("first", {{"", 8080, 80, HostPort::Protocol::kTcp}});
    ASSERT_OK(network_->Teardown(first.request.uid));
  }
  const std::string before = KernelState();
  const Pod a = MakePod("a", {{"", 8081, 80, HostPort::Protocol::kTcp}});
  const Pod b = MakePod("b");
  EXPECT_NE(KernelState(), before);
  EXPECT_EQ(HeldAddresses().size(), 4u);
  EXPECT_THAT(Records(), ElementsAre("uid-a", "uid-b"));
  EXPECT_EQ(Pins().size(), 2u);
  for (const Pod* pod : {&a, &b}) {
    EXPECT_TRUE(network_->Holds(pod->request.uid));
    ASSERT_OK(network_->Teardown(pod->request.uid));
    ASSERT_OK(network_->Teardown(pod->request.uid));  // gone already
    EXPECT_FALSE(network_->Holds(pod->request.uid));
  }
  EXPECT_EQ(KernelState(), before);
  EXPECT_THAT(HeldAddresses(), IsEmpty());
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(Pins(), IsEmpty());
}

// As after a reboot: neither namespaces nor what was mounted of them are there.
TEST_F(DebianPlugins, ANamespaceThatIsGoneFreesItsAddressesAllTheSame) {
  const Pod pod = MakePod("a", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  ASSERT_EQ(Pins().size(), 1u);
  network_.reset();
  ASSERT_EQ(::umount2(scripts_.file("netns/" + Pins().front()).c_str(), 0), 0);
  Open();
  EXPECT_EQ(HeldAddresses().size(), 2u);
  ASSERT_OK(network_->Teardown(pod.request.uid));
  EXPECT_THAT(HeldAddresses(), IsEmpty());
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_THAT(Pins(), IsEmpty());
  EXPECT_THAT(Command("iptables-save -t nat"), Not(HasSubstr("--dport 8080")));
}

TEST_F(DebianPlugins, AnAgentThatComesBackKeepsWhatStands) {
  const Pod pod = MakePod("a");
  const std::string before = KernelState();
  Open();
  EXPECT_EQ(network_->Addresses(pod.request.uid), pod.ips);
  const auto again = network_->Setup(pod.request);
  ASSERT_OK(again);
  EXPECT_EQ(*again, pod.ips);
  EXPECT_EQ(KernelState(), before);
  // CHECK was asked of it, and is asked again: now the bridge plugin misses its address.
  EXPECT_THAT(network_->TakeWarnings(), IsEmpty());
  Command("nsenter --net=" + scripts_.file("netns/" + Pins().front()) + " ip link del eth0");
  Open();
  std::vector<std::string> warnings;
  for (int i = 0; i < 1200 && warnings.empty(); ++i) {
    ::usleep(50'000);
    warnings = network_->TakeWarnings();
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("pod default/a: plugin type=\"bridge\" failed (check): "));
}

TEST_F(DebianPlugins, WithoutAnAddressLeftThePluginSaysSoAndNothingStays) {
  scripts_.Configure("10-pods.conflist",
                     StrCat(R"({"cniVersion":"1.0.0","name":"pods","plugins":[
      {"type":"bridge","bridge":"cni0","isGateway":true,"ipam":{"type":"host-local","dataDir":")",
                            addresses(), R"(","ranges":[[{"subnet":"10.78.0.0/30"}]]}}]})"));
  Open();
  const Pod only = MakePod("a");
  EXPECT_THAT(only.ips, ElementsAre("10.78.0.2"));
  const Pod more = NewPod("b");
  const auto refused = network_->Setup(more.request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(),
              testing::MatchesRegex(
                  "failed to setup network for sandbox \"[0-9a-f]{64}\": plugin type=\"bridge\" "
                  "failed \\(add\\): failed to allocate for range 0: no IP addresses available in "
                  "range set: 10.78.0.1-10.78.0.2"));
  EXPECT_THAT(Records(), ElementsAre("uid-a"));
  EXPECT_EQ(Pins().size(), 1u);
  EXPECT_THAT(HeldAddresses(), ElementsAre("10.78.0.2"));
}

TEST_F(DebianPlugins, BandwidthIsLimitedByItsPlugin) {
  int status = 0;
  Command(
      "ip link add ifbtry type ifb && tc qdisc add dev ifbtry root tbf rate 1mbit burst 10k "
      "latency 1s",
      &status);
  Command("ip link del ifbtry", &status);
  scripts_.Configure("10-pods.conflist",
                     StrCat(R"({"cniVersion":"1.0.0","name":"pods","plugins":[
      {"type":"bridge","bridge":"cni0","isGateway":true,"ipam":{"type":"host-local","dataDir":")",
                            addresses(), R"(","ranges":[[{"subnet":"10.78.0.0/24"}]]}},
      {"type":"bandwidth","capabilities":{"bandwidth":true}}]})"));
  Open();
  Pod pod = NewPod("a");
  pod.request.bandwidth = {.ingress = 10'000'000, .egress = 20'000'000};
  EXPECT_THAT(network_->LeftOut(pod.request), IsEmpty());
  const auto ips = network_->Setup(pod.request);
  if (!ips && (ips.error().message().find("not supported") != std::string::npos ||
               ips.error().message().find("no such file") != std::string::npos)) {
    GTEST_SKIP() << "this kernel has no ifb or tbf: " << ips.error().message();
  }
  ASSERT_OK(ips);
  EXPECT_THAT(Command("tc qdisc show"), HasSubstr("rate 10Mbit"));
  EXPECT_THAT(Command("tc qdisc show"), HasSubstr("rate 20Mbit"));
  ASSERT_OK(network_->Teardown(pod.request.uid));
  EXPECT_THAT(Command("tc qdisc show"), Not(HasSubstr("tbf")));
}

}  // namespace
}  // namespace holdfast::agent
