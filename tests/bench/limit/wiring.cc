// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/limit/wiring.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "holdfast/base/strings.h"
#include "tests/bench/limit/netlink.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

constexpr int kFirstIndex = 1'000'000;  // of the node's ends; nobody else's links come so far
constexpr int kPodIndex = 1000;
constexpr int kLoopback = 1;
constexpr uint32_t kMtu = 1500;
constexpr uint8_t kProtocol = 72;
constexpr std::array<uint8_t, 6> kNodeMac = {2, 0x68, 0x66, 0, 0, 1};
constexpr std::array<uint8_t, 6> kPodMac = {2, 0x68, 0x66, 0, 0, 2};

struct Ip {
  int family = AF_INET;
  std::array<uint8_t, 16> bytes{};
  size_t size() const { return family == AF_INET ? 4 : 16; }
  uint8_t bits() const { return static_cast<uint8_t>(size() * 8); }
};

Ip Parse(int family, const char* text) {
  Ip ip{family, {}};
  if (::inet_pton(family, text, ip.bytes.data()) != 1) Die(StrCat("not an address: ", text));
  return ip;
}

constexpr int kFamilies[] = {AF_INET, AF_INET6};

Ip NodeIp(int family) { return Parse(family, family == AF_INET ? "10.99.0.1" : "fd00:99::1"); }
Ip Gateway(int family) { return Parse(family, family == AF_INET ? "169.254.1.1" : "fe80::1"); }
Ip PodIp(int family, int number) {
  Ip ip = NodeIp(family);
  const int host = number + 2;
  ip.bytes[ip.size() - 2] = static_cast<uint8_t>(host >> 8);
  ip.bytes[ip.size() - 1] = static_cast<uint8_t>(host);
  return ip;
}

void Put(nlmsghdr* message, uint16_t attribute, const Ip& ip) {
  mnl_attr_put(message, attribute, ip.size(), ip.bytes.data());
}

void PutEnd(nlmsghdr* message, const char* name, const std::array<uint8_t, 6>& mac) {
  mnl_attr_put_strz(message, IFLA_IFNAME, name);
  mnl_attr_put(message, IFLA_ADDRESS, mac.size(), mac.data());
  mnl_attr_put_u32(message, IFLA_MTU, kMtu);
  mnl_attr_put_u32(message, IFLA_NUM_TX_QUEUES, 1);
  mnl_attr_put_u32(message, IFLA_NUM_RX_QUEUES, 1);
}

void AddVeth(NetlinkBatch& batch, int number, int netns) {
  ifinfomsg node{};
  node.ifi_index = kFirstIndex + number;
  nlmsghdr* message = batch.Begin(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, node);
  PutEnd(message, BareNode::LinkName(number).c_str(), kNodeMac);
  nlattr* info = mnl_attr_nest_start(message, IFLA_LINKINFO);
  mnl_attr_put_strz(message, IFLA_INFO_KIND, "veth");
  nlattr* data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
  nlattr* peer = mnl_attr_nest_start(message, VETH_INFO_PEER);
  static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg)))->ifi_index =
      kPodIndex;
  PutEnd(message, "eth0", kPodMac);
  mnl_attr_put_u32(message, IFLA_NET_NS_FD, static_cast<uint32_t>(netns));
  mnl_attr_nest_end(message, peer);
  mnl_attr_nest_end(message, data);
  mnl_attr_nest_end(message, info);
}

// Before the link is up, as PodNet sets them: a request that does both brings it up first.
void SetParameters(NetlinkBatch& batch, int index, bool node_end, const std::string& alias = "") {
  ifinfomsg link{};
  link.ifi_index = index;
  nlmsghdr* message = batch.Begin(RTM_NEWLINK, 0, link);
  if (!alias.empty()) mnl_attr_put_str(message, IFLA_IFALIAS, alias.c_str());
  nlattr* families = mnl_attr_nest_start(message, IFLA_AF_SPEC);
  nlattr* v4 = mnl_attr_nest_start(message, AF_INET);
  nlattr* values = mnl_attr_nest_start(message, IFLA_INET_CONF);
  mnl_attr_put_u32(message, IPV4_DEVCONF_ACCEPT_REDIRECTS, 0);
  if (node_end) mnl_attr_put_u32(message, IPV4_DEVCONF_RP_FILTER, 1);
  if (node_end) mnl_attr_put_u32(message, IPV4_DEVCONF_ROUTE_LOCALNET, 0);
  mnl_attr_nest_end(message, values);
  mnl_attr_nest_end(message, v4);
  if (node_end) {
    nlattr* v6 = mnl_attr_nest_start(message, AF_INET6);
    mnl_attr_put_u8(message, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
    mnl_attr_nest_end(message, v6);
  }
  mnl_attr_nest_end(message, families);
}

void SetUpLink(NetlinkBatch& batch, int index) {
  ifinfomsg link{};
  link.ifi_index = index;
  link.ifi_flags = link.ifi_change = IFF_UP;
  batch.Begin(RTM_NEWLINK, 0, link);
}

// mcast_solicit 0
void SolicitNobody(NetlinkBatch& batch, int index, int family) {
  ndtmsg table{};
  table.ndtm_family = static_cast<uint8_t>(family);
  nlmsghdr* message = batch.Begin(RTM_SETNEIGHTBL, 0, table);
  mnl_attr_put_strz(message, NDTA_NAME, family == AF_INET ? "arp_cache" : "ndisc_cache");
  nlattr* parameters = mnl_attr_nest_start(message, NDTA_PARMS);
  mnl_attr_put_u32(message, NDTPA_IFINDEX, static_cast<uint32_t>(index));
  mnl_attr_put_u32(message, NDTPA_MCAST_PROBES, 0);
  mnl_attr_nest_end(message, parameters);
}

void AddAddress(NetlinkBatch& batch, int index, const Ip& ip) {
  ifaddrmsg address{};
  address.ifa_family = static_cast<uint8_t>(ip.family);
  address.ifa_prefixlen = ip.bits();
  address.ifa_index = static_cast<uint32_t>(index);
  if (ip.family == AF_INET6) address.ifa_flags = IFA_F_NODAD;
  nlmsghdr* message = batch.Begin(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, address);
  Put(message, IFA_LOCAL, ip);
  Put(message, IFA_ADDRESS, ip);
}

void AddNeighbour(NetlinkBatch& batch, int index, const Ip& ip, const std::array<uint8_t, 6>& mac) {
  ndmsg neighbour{};
  neighbour.ndm_family = static_cast<uint8_t>(ip.family);
  neighbour.ndm_ifindex = index;
  neighbour.ndm_state = NUD_PERMANENT;
  nlmsghdr* message = batch.Begin(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, neighbour);
  Put(message, NDA_DST, ip);
  mnl_attr_put(message, NDA_LLADDR, mac.size(), mac.data());
}

// `to` null: the default route, by the gateway.
void AddRoute(NetlinkBatch& batch, int index, int family, const Ip* to, const Ip& source) {
  rtmsg route{};
  route.rtm_family = static_cast<uint8_t>(family);
  route.rtm_dst_len = to == nullptr ? 0 : to->bits();
  route.rtm_table = RT_TABLE_MAIN;
  route.rtm_protocol = kProtocol;
  route.rtm_type = RTN_UNICAST;
  route.rtm_scope = to != nullptr && family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
  route.rtm_flags = to == nullptr ? RTNH_F_ONLINK : 0;
  nlmsghdr* message = batch.Begin(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route);
  if (to != nullptr) Put(message, RTA_DST, *to);
  if (to == nullptr) Put(message, RTA_GATEWAY, Gateway(family));
  mnl_attr_put_u32(message, RTA_OIF, static_cast<uint32_t>(index));
  Put(message, RTA_PREFSRC, source);
}

void WireNodeEnd(NetlinkBatch& batch, int number) {
  const int index = kFirstIndex + number;
  SetParameters(batch, index, true, StrCat("default/bare-", number, " bare-", number));
  SetUpLink(batch, index);
  for (const int family : kFamilies) AddNeighbour(batch, index, PodIp(family, number), kPodMac);
  for (const int family : kFamilies) {
    const Ip pod = PodIp(family, number);
    AddRoute(batch, index, family, &pod, NodeIp(family));
  }
}

void WriteFile(int dir, const std::string& name, char value) {
  const UniqueFd file(::openat(dir, name.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), &value, 1) != 1) Die(StrCat(name, ": ", std::strerror(errno)));
}

}  // namespace

BareNode::BareNode()
    : socket_(OpenNetlink()),
      ipv6_(::open("/proc/sys/net/ipv6/conf", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  NetlinkBatch batch;
  SetUpLink(batch, kLoopback);
  for (const int family : kFamilies) AddAddress(batch, kLoopback, NodeIp(family));
  batch.Do(socket_.get());
}

std::string BareNode::LinkName(int number) { return StrCat("bare", number); }

void BareNode::WriteFiles(int number) {
  const std::string link = LinkName(number);
  WriteFile(ipv6_.get(), link + "/accept_ra", '0');
  WriteFile(ipv6_.get(), link + "/accept_redirects", '0');
}

void BareNode::SetUp(int number, int netns) {
  NetlinkBatch batch;
  AddVeth(batch, number, netns);
  WireNodeEnd(batch, number);
  batch.Do(socket_.get());
  WriteFiles(number);
}

void BareNode::MakeLink(int number, int netns) {
  NetlinkBatch batch;
  AddVeth(batch, number, netns);
  batch.Do(socket_.get());
  WriteFiles(number);
}

void BareNode::TakeLink(int number) {
  NetlinkBatch batch;
  WireNodeEnd(batch, number);
  batch.Do(socket_.get());
}

void BareNode::AwaitRunning(int number) {
  alignas(nlmsghdr) std::array<char, 16384> answer;
  for (;;) {
    NetlinkBatch batch;
    ifinfomsg link{};
    link.ifi_index = kFirstIndex + number;
    nlmsghdr* question = batch.Begin(RTM_GETLINK, 0, link);
    if (::send(socket_.get(), question, question->nlmsg_len, 0) < 0) Die("ask for a link");
    const ssize_t size = ::recv(socket_.get(), answer.data(), answer.size(), 0);
    const auto* message = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (size < static_cast<ssize_t>(sizeof *message) || message->nlmsg_type != RTM_NEWLINK) {
      Die(StrCat("no answer about ", LinkName(number)));
    }
    const auto* told = static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(message));
    if ((told->ifi_flags & IFF_RUNNING) != 0) return;
    ::usleep(200);
  }
}

void TunePodEnd(int procfs) {
  for (const char* name : {"accept_ra", "accept_redirects", "accept_dad"}) {
    WriteFile(procfs, StrCat("sys/net/ipv6/conf/eth0/", name), '0');
  }
}

void WirePodEnd(int number) {
  const UniqueFd socket = OpenNetlink();
  NetlinkBatch batch;
  SetParameters(batch, kPodIndex, false);
  for (const int family : kFamilies) SolicitNobody(batch, kPodIndex, family);
  SetUpLink(batch, kLoopback);
  for (const int family : kFamilies) AddAddress(batch, kPodIndex, PodIp(family, number));
  SetUpLink(batch, kPodIndex);
  for (const int family : kFamilies) {
    AddNeighbour(batch, kPodIndex, Gateway(family), kNodeMac);
    AddRoute(batch, kPodIndex, family, nullptr, PodIp(family, number));
  }
  batch.Do(socket.get());
}

InNamespace::InNamespace(int netns)
    : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (!home_ || ::setns(netns, CLONE_NEWNET) != 0) Die(StrCat("setns: ", std::strerror(errno)));
}

InNamespace::~InNamespace() {
  if (::setns(home_.get(), CLONE_NEWNET) != 0) Die(StrCat("setns: ", std::strerror(errno)));
}

void WirePod(BareNode& node, sys::RenewedProcfs& procfs, int number, int netns) {
  node.SetUp(number, netns);
  {
    const InNamespace inside(netns);
    TunePodEnd(procfs.Next().get());
    WirePodEnd(number);
  }
  node.AwaitRunning(number);
}

void MakeReadyPod(BareNode& node, sys::RenewedProcfs& procfs, int number, int netns) {
  node.MakeLink(number, netns);
  const InNamespace inside(netns);
  TunePodEnd(procfs.Next().get());
}

void WireReadyPod(BareNode& node, int number, int netns) {
  node.TakeLink(number);
  {
    const InNamespace inside(netns);
    WirePodEnd(number);
  }
  node.AwaitRunning(number);
}

}  // namespace holdfast::bench
