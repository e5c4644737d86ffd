// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/compile_base.h"

#include <algorithm>
#include <charconv>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr size_t kLongestComment = 250;  // xt_comment holds 255 characters
constexpr std::string_view kNew = "-m conntrack --ctstate NEW ";

Cidr Loopback(bool v6) { return v6 ? *Cidr::Parse("::1/128") : *Cidr::Parse("127.0.0.0/8"); }

std::string Hex(uint32_t value) {
  char text[2 + 8] = {'0', 'x'};
  const auto [end, error] = std::to_chars(text + 2, text + sizeof text, value, 16);
  return std::string(text, end);
}

IpAddress FlipBit(IpAddress a, size_t bit) {
  a.bytes[bit / 8] = static_cast<uint8_t>(a.bytes[bit / 8] ^ (0x80u >> (bit % 8)));
  return a;
}

// `range` without `hole`, which lies inside: the other half of every step towards it.
std::vector<Cidr> Without(const Cidr& range, const Cidr& hole) {
  std::vector<Cidr> out;
  for (uint8_t prefix = range.prefix; prefix < hole.prefix; ++prefix) {
    const auto longer = static_cast<uint8_t>(prefix + 1);
    out.push_back({Cidr::Mask(FlipBit(hole.network, prefix), longer), longer});
  }
  return out;
}

void AddNodePortMatches(const Cidr& range, bool localhost, std::vector<std::string>& out) {
  constexpr std::string_view kLocal = "-m addrtype --dst-type LOCAL ";
  const Cidr loopback = Loopback(range.network.v6);
  if (range.prefix == 0) {
    out.push_back(localhost ? std::string(kLocal)
                            : StrCat(kLocal, "! -d ", loopback.ToString(), " "));
    return;
  }
  std::vector<Cidr> parts = {range};
  if (!localhost && loopback.Contains(range.network)) return;
  if (!localhost && range.Contains(loopback.network)) parts = Without(range, loopback);
  for (const Cidr& part : parts) out.push_back(StrCat("-d ", part.ToString(), " ", kLocal));
}

void AddFilter(const CompileContext& context, BaseRules& base) {
  auto& chains = base.chains[Index(Table::kFilter)];
  const std::string add = StrCat("-A ", kForward, " ");
  const std::string mark = Hex(context.settings->masquerade_mark);
  std::string forward;
  if (!context.liberal_conntrack) {
    forward += StrCat(add, "-m conntrack --ctstate INVALID -j DROP\n");
  }
  forward += StrCat(add, Comment("kubernetes forwarding rules"), "-m mark --mark ", mark, "/", mark,
                    " -j ACCEPT\n");
  forward += StrCat(add, Comment("kubernetes forwarding conntrack rule"),
                    "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
  chains.push_back({std::string(kForward), std::move(forward)});
  if (LocalhostNodePorts(*context.settings, context.v6)) {
    chains.push_back({std::string(kFirewall), StrCat("-A ", kFirewall, " ", FirewallRule(), "\n")});
  }
}

void AddNat(const CompileContext& context, BaseRules& base) {
  auto& chains = base.chains[Index(Table::kNat)];
  const std::string mark = Hex(context.settings->masquerade_mark);
  chains.push_back(
      {std::string(kMarkMasq), StrCat("-A ", kMarkMasq, " -j MARK --or-mark ", mark, "\n")});
  const std::string add = StrCat("-A ", kPostrouting, " ");
  chains.push_back({std::string(kPostrouting),
                    StrCat(add, "-m mark ! --mark ", mark, "/", mark, " -j RETURN\n",  //
                           add, "-j MARK --xor-mark ", mark, "\n",                     //
                           add, Comment("kubernetes service traffic requiring SNAT"),
                           "-j MASQUERADE --random-fully\n")});
  const std::vector<std::string> pods = PodMatches(context);
  if (pods.size() > 1) {
    std::string body;
    for (const std::string& pod : pods)
      body += StrCat("-A ", kMarkMasqForeign, " ", pod, "-j RETURN\n");
    body += StrCat("-A ", kMarkMasqForeign, " -j ", kMarkMasq, "\n");
    chains.push_back({std::string(kMarkMasqForeign), std::move(body)});
  }
  std::string& tail = base.tails[Index(SharedChain::kNatServices)];
  for (const std::string& match : NodePortMatches(context)) {
    tail += StrCat("-A ", kServices, " ",
                   Comment("kubernetes service nodeports; NOTE: this must be the last rule in this "
                           "chain"),
                   match, "-j ", kNodePorts, "\n");
  }
}

std::vector<Jump> Jumps(bool firewall) {
  const std::string portals = Comment("kubernetes service portals");
  const std::string external = Comment("kubernetes externally-visible service portals");
  const std::string balancer = Comment("kubernetes load balancer firewall");
  std::vector<Jump> out;
  auto add = [&](Table table, std::string_view from, const std::string& match,
                 std::string_view to) {
    out.push_back({table, std::string(from), StrCat(match, "-j ", to)});
  };
  using enum Table;
  if (firewall) add(kFilter, "INPUT", "", kFirewall);
  add(kFilter, "INPUT", StrCat(kNew, balancer), kProxyFirewall);
  add(kFilter, "INPUT", Comment("kubernetes health check service ports"), kNodePorts);
  add(kFilter, "INPUT", StrCat(kNew, external), kExternalServices);
  add(kFilter, "FORWARD", StrCat(kNew, balancer), kProxyFirewall);
  add(kFilter, "FORWARD", Comment("kubernetes forwarding rules"), kForward);
  add(kFilter, "FORWARD", StrCat(kNew, portals), kServices);
  add(kFilter, "FORWARD", StrCat(kNew, external), kExternalServices);
  if (firewall) add(kFilter, "OUTPUT", "", kFirewall);
  add(kFilter, "OUTPUT", StrCat(kNew, balancer), kProxyFirewall);
  add(kFilter, "OUTPUT", StrCat(kNew, portals), kServices);
  add(kNat, "PREROUTING", portals, kServices);
  add(kNat, "OUTPUT", portals, kServices);
  add(kNat, "POSTROUTING", Comment("kubernetes postrouting rules"), kPostrouting);
  return out;
}

}  // namespace

Table TableOf(SharedChain chain) {
  return chain == SharedChain::kNatServices || chain == SharedChain::kNatNodePorts ? Table::kNat
                                                                                   : Table::kFilter;
}

std::string_view NameOf(SharedChain chain) {
  switch (chain) {
    case SharedChain::kNatServices:
    case SharedChain::kFilterServices:
      return kServices;
    case SharedChain::kNatNodePorts:
    case SharedChain::kFilterNodePorts:
      return kNodePorts;
    case SharedChain::kFilterExternal:
      return kExternalServices;
    case SharedChain::kFilterFirewall:
      return kProxyFirewall;
  }
  return "";
}

bool LocalhostNodePorts(const model::ServiceSettings& settings, bool v6) {
  if (v6 || !settings.localhost_node_ports) return false;
  const IpAddress localhost = *IpAddress::Parse("127.0.0.1");
  return std::any_of(settings.node_port_ranges.begin(), settings.node_port_ranges.end(),
                     [&](const Cidr& range) { return range.Contains(localhost); });
}

std::vector<std::string> PodMatches(const CompileContext& context) {
  std::vector<std::string> out;
  const model::LocalSources& local = context.settings->local;
  for (const Cidr& cidr : local.cidrs) {
    if (cidr.network.v6 == context.v6) out.push_back(StrCat("-s ", cidr.ToString(), " "));
  }
  if (!local.interface.empty()) {
    out.push_back(StrCat("-i ", local.interface, local.is_prefix ? "+ " : " "));
  }
  return out;
}

std::vector<std::string> NodePortMatches(const CompileContext& context) {
  const bool localhost = LocalhostNodePorts(*context.settings, context.v6);
  std::vector<std::string> out;
  for (const Cidr& range : context.settings->node_port_ranges) {
    if (range.network.v6 == context.v6) AddNodePortMatches(range, localhost, out);
  }
  return out;
}

std::string MarkForeign(const CompileContext& context) {
  const std::vector<std::string> pods = PodMatches(context);
  if (pods.size() > 1) return StrCat("-j ", kMarkMasqForeign);
  return StrCat(pods.empty() ? "" : StrCat("! ", pods.front()), "-j ", kMarkMasq);
}

std::string Comment(std::string_view text) {
  std::string clean(text.substr(0, kLongestComment));
  for (char& c : clean) {
    const bool plain = c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '\'';
    if (!plain && c != ' ') c = '_';
  }
  const bool quoted = clean.find(' ') != std::string::npos;
  return StrCat("-m comment --comment ", quoted ? "\"" : "", clean, quoted ? "\" " : " ");
}

BaseRules CompileBase(const CompileContext& context) {
  BaseRules base;
  for (auto& chains : base.chains) chains.push_back({std::string(kCanary), ""});
  AddFilter(context, base);
  AddNat(context, base);
  base.jumps = Jumps(LocalhostNodePorts(*context.settings, context.v6));
  return base;
}

std::string FirewallRule() {
  return StrCat(Comment("block incoming localnet connections"),
                "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT "
                "-j DROP");
}

}  // namespace holdfast::netproxy::iptables
