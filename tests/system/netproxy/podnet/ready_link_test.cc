// SPDX-License-Identifier: Apache-2.0
// Links that lie ready for pods to come: who gets one, what distinguishes it from others (nothing), and that none is left.
#include "netproxy/podnet/ready_link.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "tests/support/text_file.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy {
namespace {

using Facts = std::map<std::string, std::string>;
namespace fs = std::filesystem;

void AddFiles(const std::string& tree, Facts& facts) {
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    if (entry.is_regular_file()) facts[entry.path()] = test_support::ReadText(entry.path());
  }
}

class ReadyLink : public NetFixture {
 protected:
  // As the launcher makes them.
  static NsFd Namespace() {
    auto netns = sys::NewNetworkNamespace();
    EXPECT_OK(netns);
    auto inside = sys::Rtnl::OpenIn(netns->get());
    EXPECT_OK(inside->SetLinkUp(1));
    return std::move(*netns);
  }

  // Setup in that namespace.
  Pod MakePodIn(NsFd netns, const std::string& name) {
    Pod pod;
    pod.netns = std::move(netns);
    pod.request.uid = PodUid("uid-" + name);
    pod.request.pod_namespace = "default";
    pod.request.pod_name = name;
    pod.request.network_namespace = pod.netns.get();
    auto ips = net_->Setup(pod.request);
    EXPECT_OK(ips);
    if (ips) pod.ips = *ips;
    return pod;
  }

  NsFd ReadyNamespace() {
    NsFd netns = Namespace();
    EXPECT_OK(net_->MakeReady(netns.get()));
    return netns;
  }

  // Those that are no pod's yet.
  static std::vector<sys::Link> LinksReady() {
    auto links = sys::Rtnl::Open()->ListLinks();
    EXPECT_OK(links);
    std::erase_if(*links, [](const sys::Link& link) {
      return !IsNameOfReady("hf", link.name) || !PodInterface("hf", link).empty();
    });
    return *links;
  }

  // The one link that lies ready, by its number.
  static int NumberOfReady() {
    const std::vector<sys::Link> ready = LinksReady();
    EXPECT_EQ(ready.size(), 1u);
    return ready.empty() ? 0 : ready.front().index;
  }

  int NumberOf(const Pod& pod) const {
    auto link = sys::Rtnl::Open()->GetLink(InterfaceOf(pod));
    EXPECT_OK(link);
    return link ? link->index : 0;
  }

  static void Replace(std::string& text, const std::string& what, const std::string& by) {
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
  }

  // What is one pod's own in common words.
  static std::string InCommonWords(std::string text, const Pod& pod, const std::string& node_end) {
    for (const std::string& ip : pod.ips) Replace(text, ip, "IP");
    Replace(text, node_end, "NODE-END");
    for (const auto& [what, by] :
         {std::pair("(^|\n)\\d+: ", "$1NUMBER: "), std::pair("@if\\d+", "@ifNUMBER"),
          std::pair("link-netnsid \\d+", "link-netnsid NUMBER"),
          std::pair("\n +altname hf[0-9a-f]{11}", ""), std::pair("02:68(:[0-9a-f]{2}){4}", "MAC"),
          std::pair("fe80::6[0-9a-f:]+", "LINK-LOCAL")}) {
      text = std::regex_replace(text, std::regex(what), by);
    }
    return text;
  }

  // All that the kernel shows of a pod's link at both ends.
  Facts FactsOf(const Pod& pod) const {
    Facts facts;
    const std::string node_end = sys::Rtnl::Open()->GetLink(InterfaceOf(pod))->name;
    for (const char* folder : {"ipv4/conf", "ipv4/neigh", "ipv6/conf", "ipv6/neigh"}) {
      AddFiles(StrCat("/proc/sys/net/", folder, "/", node_end), facts);
    }
    for (const char* command :
         {"ip -d link show ", "ip address show ", "ip route show dev ", "ip -6 route show dev ",
          "ip neigh show dev ", "ip -6 neigh show dev "}) {
      facts[command] = Command(command + node_end);
    }
    EXPECT_OK(sys::RunInNetworkNamespace(pod.netns.get(), [&]() -> Result<void> {
      AddFiles("/proc/sys/net", facts);
      for (const char* command :
           {"ip -d link", "ip address", "ip route show table all", "ip -6 route show table all",
            "ip rule", "ip -6 rule", "ip neigh", "ip -6 neigh", "ip -s link show dev lo"}) {
        facts[command] = Command(command);
      }
      return {};
    }));
    Facts common;
    for (const auto& [name, text] : facts) {
      common[InCommonWords(name, pod, node_end)] = InCommonWords(text, pod, node_end);
    }
    return common;
  }

  void ExpectLikeAnyOther() {
    Pod fresh = MakePodIn(Namespace(), "web");
    const Facts expected = FactsOf(fresh);
    EXPECT_GT(expected.size(), 300u);
    ASSERT_OK(net_->Teardown(fresh.request.uid));
    DropNamespace(fresh);

    NsFd netns = ReadyNamespace();
    const int number = NumberOfReady();
    Pod pod = MakePodIn(std::move(netns), "web");
    EXPECT_EQ(NumberOf(pod), number) << "it did not get the link that lay ready";
    EXPECT_TRUE(LinksReady().empty());
    const Facts found = FactsOf(pod);
    for (const auto& [name, text] : expected) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_EQ(found.at(name), text) << name;
    }
    EXPECT_EQ(found.size(), expected.size());
  }
};

TEST_F(ReadyLink, OfAPodItIsLikeAnyOther) { ExpectLikeAnyOther(); }

TEST_F(ReadyLink, OfAPodWithoutIpv6ItIsLikeAnyOther) {
  instance_.pod_cidrs = {"10.88.0.0/16"};
  Reopen();
  ExpectLikeAnyOther();
}

TEST_F(ReadyLink, PacketsPass) {
  Pod pod = MakePodIn(ReadyNamespace(), "web");
  for (const bool v6 : {false, true}) {
    UniqueFd server = Socket(pod.netns.get(), SOCK_STREAM, AnyOf(pod.ip(v6)), 80, true);
    const Outcome got = Connect(node_.get(), pod.ip(v6), 80, server.get());
    EXPECT_EQ(got.error, "");
    EXPECT_EQ(got.source, v6 ? "fd00:88::1" : "10.88.0.1");
  }
}

TEST_F(ReadyLink, UntilThenItIsDownWithoutAddressesAndNoLeftover) {
  const NsFd netns = ReadyNamespace();
  const std::vector<sys::Link> ready = LinksReady();
  ASSERT_EQ(ready.size(), 1u);
  EXPECT_FALSE(ready.front().up);
  auto inside = sys::Rtnl::OpenIn(netns.get());
  EXPECT_FALSE(inside->GetLink("eth0")->up);
  const auto addresses = inside->ListAddresses();
  for (const sys::Address& address : *addresses) EXPECT_EQ(address.link, 1) << "not lo";
  EXPECT_TRUE(inside->ListRoutes()->empty());
  EXPECT_TRUE(net_->Audit({}, true)->empty());
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(LinksReady().size(), 1u);
}

TEST_F(ReadyLink, ItEndsWithItsNamespace) {
  NsFd netns = ReadyNamespace();
  EXPECT_EQ(LinksReady().size(), 1u);
  netns.Reset();
  for (int i = 0; i < kTimeoutMs && !LinksReady().empty(); ++i) ::usleep(1000);
  EXPECT_TRUE(LinksReady().empty());
}

TEST_F(ReadyLink, TheNextAgentFindsIt) {
  NsFd netns = ReadyNamespace();
  const int number = NumberOfReady();
  Reopen();
  const Pod pod = MakePodIn(std::move(netns), "web");
  EXPECT_EQ(NumberOf(pod), number);
}

TEST_F(ReadyLink, EachPodGetsThatOfItsOwnNamespace) {
  NsFd one = ReadyNamespace();
  const int number = NumberOfReady();
  NsFd other = ReadyNamespace();
  const Pod second = MakePodIn(std::move(other), "second");
  EXPECT_NE(NumberOf(second), number);
  const Pod first = MakePodIn(std::move(one), "first");
  EXPECT_EQ(NumberOf(first), number);
}

TEST_F(ReadyLink, OneOfAnotherMtuIsNotTaken) {
  NsFd netns = ReadyNamespace();
  Command("ip link set up0 mtu 1300");
  ASSERT_OK(net_->Ensure());
  const Pod pod = MakePodIn(std::move(netns), "web");
  auto node = sys::Rtnl::Open();
  EXPECT_EQ(node->GetLink(InterfaceOf(pod))->mtu, 1300u);
  auto inside = sys::Rtnl::OpenIn(pod.netns.get());
  EXPECT_EQ(inside->GetLink("eth0")->mtu, 1300u);
  EXPECT_TRUE(LinksReady().empty());
}

TEST_F(ReadyLink, OneOfOtherFamiliesIsNotTaken) {
  NsFd netns = ReadyNamespace();
  ASSERT_OK(net_->SetRanges({*Cidr::Parse("10.99.0.0/24")}, std::nullopt));
  const Pod pod = MakePodIn(std::move(netns), "web");
  EXPECT_EQ(pod.ips, std::vector<std::string>{"10.99.0.2"});
  ASSERT_OK(sys::RunInNetworkNamespace(pod.netns.get(), []() -> Result<void> {
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/eth0/disable_ipv6").value(), "1");
    EXPECT_EQ(sys::ReadSysctl("net/ipv6/conf/eth0/accept_ra").value(), "1")
        << "as the kernel has it";
    return {};
  }));
  EXPECT_TRUE(LinksReady().empty());
}

TEST_F(ReadyLink, ThatOfASandboxMadeAnewTakesThePlaceOfTheFormer) {
  Pod pod = MakePodIn(Namespace(), "web");
  NsFd netns = ReadyNamespace();
  pod.request.network_namespace = netns.get();
  EXPECT_EQ(net_->Setup(pod.request).value(), pod.ips);
  EXPECT_TRUE(LinksReady().empty());
  UniqueFd server = Socket(netns.get(), SOCK_STREAM, "0.0.0.0", 80, true);
  EXPECT_EQ(Connect(node_.get(), pod.ip(false), 80, server.get()).error, "");
  auto former = sys::Rtnl::OpenIn(pod.netns.get());
  EXPECT_FALSE(former->GetLink("eth0"));
}

TEST_F(ReadyLink, ASecondSetupChangesNothing) {
  const Pod pod = MakePodIn(ReadyNamespace(), "web");
  const auto state = [] {
    return Command(
        "ip -d -o link show type veth; ip route; ip -6 route; ip neigh show nud permanent; "
        "ip -6 neigh show nud permanent");
  };
  const std::string before = state();
  Command("ip link set up0 mtu 1300");
  Reopen();
  Command("ip link set up0 mtu 1400");
  EXPECT_EQ(net_->Setup(pod.request).value(), pod.ips);
  EXPECT_EQ(state(), before);
}

TEST_F(ReadyLink, OfAPodItIsFoundByTheNameOfThePod) {
  Pod pod = MakePodIn(ReadyNamespace(), "web");
  EXPECT_NE(Command("ip link show " + InterfaceOf(pod)).find("alias default/web uid-web"),
            std::string::npos);
  ASSERT_OK(net_->Ensure());
  ASSERT_OK(net_->Ensure());
  EXPECT_EQ(net_->TakeWarnings(), std::vector<std::string>{}) << "it is not missing";
  EXPECT_TRUE(net_->Audit({pod.request.uid}, true)->empty());
  EXPECT_EQ(net_->Setup(pod.request).value(), pod.ips);

  ASSERT_OK(net_->Teardown(pod.request.uid));
  EXPECT_EQ(net_->Audit({}, false)->size(), 2u) << "its address as long as it is there";
  DropNamespace(pod);
  ASSERT_OK(net_->Ensure());
  EXPECT_TRUE(net_->Audit({}, false)->empty());
}

TEST_F(ReadyLink, OfNoLivePodItIsALeftover) {
  const Pod pod = MakePodIn(ReadyNamespace(), "web");
  const auto found = net_->Audit({}, true);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 2u) << "its record and its interface";
  EXPECT_FALSE(sys::Rtnl::Open()->GetLink(InterfaceOf(pod)));
}

TEST_F(ReadyLink, WithoutItsRecordItsAddressIsNotGivenAgain) {
  const Pod pod = MakePodIn(ReadyNamespace(), "web");
  net_.reset();
  std::filesystem::remove_all(directory_ + "/network");
  Reopen();
  const Pod other = MakePod("other");
  EXPECT_NE(other.ips, pod.ips);
}

TEST_F(ReadyLink, WhereAPodHasItsLinkNoneIsMade) {
  const Pod pod = MakePodIn(Namespace(), "web");
  const auto made = net_->MakeReady(pod.netns.get());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Code::kAlreadyExists);
  EXPECT_TRUE(LinksReady().empty());
}

TEST_F(ReadyLink, NoneWithoutARangeOfAddresses) {
  net_.reset();
  instance_.pod_cidrs = {};
  instance_.root_dir = directory_ + "/other";
  Reopen();
  const NsFd netns = ReadyNamespace();
  EXPECT_TRUE(LinksReady().empty());
  ASSERT_OK(net_->SetRanges({*Cidr::Parse("10.99.0.0/24")}, std::nullopt));
  ASSERT_OK(net_->MakeReady(netns.get()));
  EXPECT_EQ(LinksReady().size(), 1u);
}

TEST_F(ReadyLink, AnAliensInterfaceOfThatNameIsLeftAlone) {
  NsFd netns = ReadyNamespace();
  const std::string name = LinksReady().front().name;
  Command("ip link del " + name);
  Command("ip link add " + name + " type veth peer name alien1");
  const Pod pod = MakePodIn(std::move(netns), "web");
  EXPECT_EQ(pod.ips.size(), 2u);
  EXPECT_TRUE(sys::Rtnl::Open()->GetLink(name)) << "it is somebody else's";
}

}  // namespace
}  // namespace holdfast::netproxy
