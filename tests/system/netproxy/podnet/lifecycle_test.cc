// SPDX-License-Identifier: Apache-2.0
// Addresses over a pod's life, restarts of the agent, leftovers: what the kernel has afterwards.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "holdfast/sys/sysctl.h"
#include "netproxy/podnet/wiring.h"
#include "tests/support/eventually.h"
#include "tests/system/netproxy/podnet/net_fixture.h"
#include "tests/system/netproxy/podnet/recorded_pods.h"

namespace holdfast::netproxy {
namespace {

class Lifecycle : public NetFixture {
 protected:
  // Interfaces of ours, routes and rules, as the kernel has them.
  static std::string KernelState() {
    return Command("ip -o link show type veth") +
           Command("ip route show proto 72; ip -6 route show proto 72") +
           Command("ip neigh show nud permanent; ip -6 neigh show nud permanent") +
           Command("nft list ruleset");
  }
  void Reconfigure(const std::vector<std::string>& cidrs) {
    instance_.pod_cidrs = cidrs;
    Reopen();
  }
  static std::vector<std::string> Objects(const Result<std::vector<Leftover>>& found) {
    std::vector<std::string> out;
    for (const Leftover& l : *found) out.push_back(l.kind + " " + l.object);
    return out;
  }
  size_t RecordCount() { return RecordedPods(directory_).size(); }
};

TEST_F(Lifecycle, SecondSetupChangesNothing) {
  Pod pod = MakePod("web", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  const std::string before = KernelState();
  auto again = net_->Setup(pod.request);
  ASSERT_OK(again);
  EXPECT_EQ(*again, pod.ips);
  EXPECT_EQ(KernelState(), before);
}

TEST_F(Lifecycle, AddressesAndWiringSurviveARestartOfTheAgent) {
  Pod pod = MakePod("web");
  const std::string before = KernelState();
  Reopen();
  EXPECT_EQ(net_->Addresses(pod.request.uid), pod.ips);
  EXPECT_EQ(net_->Setup(pod.request).value(), pod.ips);
  EXPECT_EQ(KernelState(), before);
  Pod other = MakePod("other");
  EXPECT_NE(other.ips, pod.ips);
}

TEST_F(Lifecycle, AnInterfaceThatSomebodyDeletedIsToldOnce) {
  Pod pod = MakePod("web");
  Pod other = MakePod("other");
  ASSERT_OK(net_->Ensure());
  net_->TakeWarnings();
  const std::string name = InterfaceName(instance_.interface_prefix, pod.request.uid);
  Command("ip link del " + name);
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(net_->TakeWarnings(), std::vector<std::string>{}) << "it may be on its way";
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(net_->TakeWarnings(),
            std::vector<std::string>{"pod default/web: somebody deleted its interface " + name +
                                     ": it has no network until it is deleted and made again"});
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(net_->TakeWarnings(), std::vector<std::string>{});
  ASSERT_OK(net_->Teardown(pod.request.uid));
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(net_->TakeWarnings(), std::vector<std::string>{});
}

TEST_F(Lifecycle, SandboxMadeAnewGetsTheSameAddresses) {
  Pod pod = MakePod("web");
  const std::vector<std::string> before = pod.ips;
  auto fresh = sys::NewNetworkNamespace();
  NsFd old = std::move(pod.netns);  // the old namespace still lives, with the old veth
  pod.netns = std::move(*fresh);
  pod.request.network_namespace = pod.netns.get();
  auto again = net_->Setup(pod.request);
  ASSERT_OK(again);
  EXPECT_EQ(*again, before);
  UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
  EXPECT_EQ(Connect(node_.get(), pod.ips[0], 80, server.get()).error, "");
}

TEST_F(Lifecycle, TeardownLeavesNothingOfThePod) {
  const std::string before = KernelState();
  {
    Pod pod = MakePod(
        "web", {{"", 8080, 80, HostPort::Protocol::kTcp}, {"", 53, 53, HostPort::Protocol::kUdp}});
    EXPECT_NE(KernelState(), before);
    ASSERT_OK(net_->Teardown(pod.request.uid));
    EXPECT_TRUE(net_->Addresses(pod.request.uid).empty());
    DropNamespace(pod);
  }
  ASSERT_OK(net_->Release());
  EXPECT_EQ(KernelState(), before);
  EXPECT_EQ(RecordCount(), 0u);
  EXPECT_TRUE(net_->Teardown(PodUid("uid-web"))) << "absent is success";
}

TEST_F(Lifecycle, AddressIsFreeOnlyWhenTheInterfaceIsGone) {
  Reconfigure({"10.88.0.0/30"});  // room for one pod
  Pod pod = MakePod("first");
  EXPECT_EQ(pod.ips, std::vector<std::string>{"10.88.0.2"});
  auto full = TryPod("second");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::kResourceExhausted);
  EXPECT_NE(
      full.error().message().find("no IP addresses available in range set: 10.88.0.0-10.88.0.3"),
      std::string::npos)
      << full.error().message();
  ASSERT_OK(net_->Teardown(pod.request.uid));
  EXPECT_FALSE(TryPod("second")) << "the namespace lives";
  Reopen();
  EXPECT_FALSE(TryPod("second")) << "the namespace lives, the agent is new";
  DropNamespace(pod);
  EXPECT_EQ(TryPod("second").value(), std::vector<std::string>{"10.88.0.2"});
}

TEST_F(Lifecycle, AddressesGoRoundInsteadOfBeingUsedAgainAtOnce) {
  Reconfigure({"10.88.0.0/29"});  // .2 to .6
  std::vector<std::string> given;
  for (int i = 0; i < 7; ++i) {
    Pod pod = MakePod("p" + std::to_string(i));
    given.push_back(pod.ips.at(0));
    ASSERT_OK(net_->Teardown(pod.request.uid));
    DropNamespace(pod);
    if (i == 2) Reopen();
  }
  EXPECT_EQ(given, (std::vector<std::string>{"10.88.0.2", "10.88.0.3", "10.88.0.4", "10.88.0.5",
                                             "10.88.0.6", "10.88.0.2", "10.88.0.3"}));
}

TEST_F(Lifecycle, PodOfOneFamilyHasNothingOfTheOther) {
  Reconfigure({"10.88.0.0/16"});
  Pod pod = MakePod("web");
  EXPECT_EQ(pod.ips.size(), 1u);
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), []() -> Result<void> {
    EXPECT_EQ(Command("ip -6 addr show dev eth0"), "");
    return {};
  }));
}

TEST_F(Lifecycle, FirstDatagramsEachWayAreNotLost) {
  for (int i = 0; i < 30; ++i) {
    Pod pod = MakePod("p" + std::to_string(i));
    UniqueFd inside = Socket(pod.netns.get(), SOCK_DGRAM, pod.ip(false), 7000, false);
    UniqueFd node = Socket(node_.get(), SOCK_DGRAM, "10.88.0.1", 7000, false);
    EXPECT_EQ(SendDatagram(node.get(), pod.ip(false), 7000, inside.get()), "10.88.0.1");
    EXPECT_EQ(SendDatagram(inside.get(), "10.88.0.1", 7000, node.get()), pod.ip(false));
  }
}

TEST_F(Lifecycle, ManyThreadsSetUpAndTearDownAtOnce) {
  constexpr int kThreads = 6;
  constexpr int kEach = 10;
  std::vector<std::thread> threads;
  std::vector<std::vector<std::string>> given(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        Pod pod =
            MakePod(StrCat(t, "-", i), {{"", static_cast<uint16_t>(1000 + t * kEach + i), 80}});
        if (i % 2 == 0) {
          EXPECT_OK(net_->Teardown(pod.request.uid));
        } else {
          given[static_cast<size_t>(t)].push_back(pod.ips.at(0));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& part : given) all.insert(part.begin(), part.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kEach / 2));
}

TEST_F(Lifecycle, NodeWithIpv6SwitchedOffGivesIpv4OnlyAndSaysSo) {
  Pod both = MakePod("both");
  net_.reset();
  ASSERT_OK(sys::WriteSysctl("net/ipv6/conf/all/disable_ipv6", "1"));
  auto opened = PodNet::Open(instance_);
  ASSERT_OK(opened);
  net_ = std::move(*opened);
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(
      net_->TakeWarnings(),
      std::vector<std::string>{"IPv6 is switched off on this node: pods get IPv4 addresses only"});
  EXPECT_EQ(MakePod("web").ips, std::vector<std::string>{"10.88.0.3"});
  net_.reset();
  instance_.pod_cidrs = {"fd00:88::/64"};
  EXPECT_EQ(PodNet::Open(instance_).error().code(), Code::kUnsupported);
}

// A /proc that nobody can write to, for this thread and those it starts.
class ReadOnlyProc {
 public:
  ReadOnlyProc() {
    EXPECT_EQ(::unshare(CLONE_NEWNS), 0) << ::strerror(errno);
    EXPECT_EQ(::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr), 0) << ::strerror(errno);
    EXPECT_EQ(::mount("proc", "/proc", "proc", MS_RDONLY, nullptr), 0) << ::strerror(errno);
  }
  ~ReadOnlyProc() { EXPECT_EQ(::umount2("/proc", MNT_DETACH), 0) << ::strerror(errno); }
  ReadOnlyProc(const ReadOnlyProc&) = delete;
  ReadOnlyProc& operator=(const ReadOnlyProc&) = delete;
};

TEST_F(Lifecycle, AParameterOfTheNodeThatCannotBeSetIsAWarning) {
  net_.reset();
  ASSERT_OK(sys::WriteSysctl("net/ipv4/ip_forward", "0"));
  const ReadOnlyProc proc;
  auto opened = PodNet::Open(instance_);
  ASSERT_OK(opened);
  net_ = std::move(*opened);
  ASSERT_OK(net_->Ensure());
  const std::vector<std::string> warnings = net_->TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("ip_forward"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("read-only file system"), std::string::npos) << warnings[0];
  EXPECT_EQ(MakePod("web").ips.size(), 2u) << "pods are made all the same";
}

TEST_F(Lifecycle, PrimaryFamilyComesFirst) {
  Reconfigure({"fd00:88::/64", "10.88.0.0/16"});
  EXPECT_EQ(MakePod("web").ips, (std::vector<std::string>{"fd00:88::2", "10.88.0.2"}));
}

TEST_F(Lifecycle, LostAddressBookGivesNoAddressTwice) {
  Pod pod = MakePod("web");
  net_.reset();
  std::filesystem::remove_all(directory_ + "/network");
  Reopen();
  Pod other = MakePod("other");
  EXPECT_NE(other.ips[0], pod.ips[0]);
  EXPECT_NE(other.ips[1], pod.ips[1]);
  EXPECT_EQ(Objects(net_->Audit({other.request.uid}, false)),
            std::vector<std::string>{"interface " + InterfaceOf(pod)});
}

TEST_F(Lifecycle, DamagedRecordIsDroppedWithAWarningAndItsAddressNotGivenAgain) {
  Pod pod = MakePod("web");
  net_.reset();
  ASSERT_OK(
      OpenRecords(directory_).journal->Put("uid-web", "holdfast-pod-network 1\naddress 10.8"));
  auto opened = PodNet::Open(instance_);
  ASSERT_OK(opened);
  net_ = std::move(*opened);
  const std::vector<std::string> warnings = net_->TakeWarnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("uid-web"), std::string::npos);
  Pod other = MakePod("other");
  EXPECT_NE(other.ips[0], pod.ips[0]);
}

TEST_F(Lifecycle, AuditFindsAndRepairsWhatNoPodHas) {
  Pod live = MakePod("live");
  const std::string right = KernelState();
  Pod lost = MakePod("lost", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  const std::vector<std::string> both = {"record uid-lost", "interface " + InterfaceOf(lost)};
  EXPECT_EQ(Objects(net_->Audit({live.request.uid}, false)), both);
  EXPECT_EQ(Objects(net_->Audit({live.request.uid}, true)), both);
  EXPECT_TRUE(net_->Audit({live.request.uid}, false)->empty());
  EXPECT_EQ(KernelState(), right);
  EXPECT_EQ(RecordCount(), 1u);
  EXPECT_EQ(net_->Addresses(live.request.uid), live.ips);
}

TEST_F(Lifecycle, AuditFindsAndRepairsRulesThatAreNotAsWanted) {
  Pod pod = MakePod("web", {{"", 8080, 80, HostPort::Protocol::kTcp}});
  const std::string right = KernelState();
  Command("nft 'add element ip holdfast host_ports { tcp . 22 : 10.88.0.9 . 22 }'");
  EXPECT_EQ(Objects(net_->Audit({pod.request.uid}, false)),
            std::vector<std::string>{"rules holdfast"});
  EXPECT_EQ(Objects(net_->Audit({pod.request.uid}, true)),
            std::vector<std::string>{"rules holdfast"});
  EXPECT_TRUE(net_->Audit({pod.request.uid}, false)->empty());
  EXPECT_EQ(KernelState().size(), right.size());
}

TEST_F(Lifecycle, ForeignInterfacesRoutesAndNamesAreNotTouched) {
  Command(
      "ip link add hf00000000000 type veth peer name hfother");  // our form of name, not our MAC
  Command("ip route add 10.88.0.2/32 via 192.0.2.1");            // a foreign route to a pod address
  const std::string before = Command("ip -o link; ip route");
  auto refused = TryPod("web");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
  EXPECT_NE(refused.error().message().find("10.88.0.2/32: a foreign route is there"),
            std::string::npos)
      << refused.error().message();
  EXPECT_OK(net_->Audit({}, true));
  EXPECT_EQ(Command("ip -o link; ip route"), before);
}

// A number that PodNet remembers of a link says nothing about another one.
TEST_F(Lifecycle, AnAddressStaysTakenWhileThereIsALinkThatAFailedSetupMade) {
  Pod pod = MakePod("web");
  const std::string link = InterfaceName("hf", pod.request.uid);
  const std::string foreign = StrCat(pod.ips[0], "/32 via 192.0.2.1");
  Command("ip link del " + link);
  Command("ip route add " + foreign);
  ASSERT_FALSE(net_->Setup(pod.request));
  Command("ip link show " + link);
  Command("ip route del " + foreign);
  ASSERT_OK(net_->Teardown(pod.request.uid));
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(RecordCount(), 1u);
  pod.netns.Reset();
  const auto is_free = [&] {
    EXPECT_TRUE(net_->Ensure());
    return RecordCount() == 0;
  };
  EXPECT_TRUE(test_support::Eventually(is_free, std::chrono::seconds(5)));
}

TEST_F(Lifecycle, ForeignEth0InThePodIsRefused) {
  auto netns = sys::NewNetworkNamespace();
  ASSERT_OK(sys::RunInNetworkNamespace(netns->get(), []() -> Result<void> {
    Command("ip link add eth0 type veth peer name other");
    return {};
  }));
  PodNetworkRequest request;
  request.uid = PodUid("uid-web");
  request.network_namespace = netns->get();
  auto refused = net_->Setup(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kConflict);
}

TEST_F(Lifecycle, RemoveNodePartsLeavesTheNodeAsItWas) {
  const auto state = [] {
    return Command("ip addr show dev lo; ip route; ip -6 route; nft list ruleset") +
           sys::ReadSysctl("net/ipv4/ip_forward").value() +
           sys::ReadSysctl("net/ipv6/conf/all/forwarding").value();
  };
  const std::string with = state();
  ASSERT_OK(net_->RemoveNodeParts());
  const std::string without = state();
  EXPECT_EQ(without.find("10.88"), std::string::npos) << without;
  EXPECT_EQ(without.find("fd00:88"), std::string::npos) << without;
  EXPECT_EQ(without.find("holdfast"), std::string::npos) << without;
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(state(), with);
}

TEST_F(Lifecycle, SecondAgentOnTheSameDirectoryIsRefused) {
  auto second = PodNet::Open(instance_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kConflict);
}

TEST_F(Lifecycle, TwoAgentsWithTheirOwnNamesLiveSideBySide) {
  model::Instance other = instance_;
  other.root_dir = directory_ + "/second";
  other.interface_prefix = "hx";
  other.table_name = "second";
  other.pod_cidrs = {"10.99.0.0/16"};
  auto second = PodNet::Open(other);
  ASSERT_OK(second);
  ASSERT_OK((*second)->Ensure());
  Pod pod = MakePod("web");
  auto netns = sys::NewNetworkNamespace();
  PodNetworkRequest request;
  request.uid = pod.request.uid;  // even with the same pod
  request.network_namespace = netns->get();
  EXPECT_EQ((*second)->Setup(request).value(), std::vector<std::string>{"10.99.0.2"});
  EXPECT_TRUE(net_->Audit({pod.request.uid}, true)->empty());
  UniqueFd server = Socket(netns->get(), SOCK_STREAM, "0.0.0.0", 80, true);
  EXPECT_EQ(Connect(pod.netns.get(), "10.99.0.2", 80, server.get()).error, "");
  EXPECT_EQ(Objects((*second)->Audit({}, true)).size(), 2u);
  EXPECT_EQ(net_->Audit({pod.request.uid}, false)->size(), 0u);
}

TEST_F(Lifecycle, BadInputIsRefusedAndChangesNothing) {
  const std::string before = KernelState();
  for (const char* uid : {"", ".", "../x", "a/b", "a b"}) {
    PodNetworkRequest request;
    request.uid = PodUid(uid);
    request.network_namespace = outside_.get();
    EXPECT_EQ(net_->Setup(request).error().code(), Code::kInvalidArgument) << uid;
  }
  EXPECT_EQ(TryPod("x", {{"", 0, 80, HostPort::Protocol::kTcp}}).error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(TryPod("x", {{"", 80, 80, HostPort::Protocol::kTcp},
                         {"0.0.0.0", 80, 81, HostPort::Protocol::kTcp}})
                .error()
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(KernelState(), before);
  EXPECT_EQ(RecordCount(), 0u);
  model::Instance bad = instance_;
  bad.root_dir = directory_ + "/bad";
  for (const std::vector<std::string>& cidrs : std::vector<std::vector<std::string>>{
           {"10.0.0.1/8"}, {"10.0.0.0/31"}, {"10.0.0.0/8", "11.0.0.0/8"}, {"x"}}) {
    bad.pod_cidrs = cidrs;
    EXPECT_EQ(PodNet::Open(bad).error().code(), Code::kInvalidArgument);
  }
  bad.pod_cidrs = instance_.pod_cidrs;
  for (const char* prefix : {"", "toolong", "a-b"}) {
    bad.interface_prefix = prefix;
    EXPECT_EQ(PodNet::Open(bad).error().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast::netproxy
