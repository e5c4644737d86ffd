// SPDX-License-Identifier: Apache-2.0
// What of the rules does not depend on rows, and what rows are compiled against. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/model/service_table.h"
#include "netproxy/services/iptables/ruleset.h"

namespace holdfast::netproxy::iptables {

// Above so many endpoints the rules of endpoints go without comments, as in kube-proxy.
inline constexpr size_t kLargeClusterEndpoints = 1000;

struct CompileContext {
  std::shared_ptr<const model::ServiceSettings> settings;  // never null
  bool v6 = false;
  bool large = false;
  bool liberal_conntrack = false;  // nf_conntrack_tcp_be_liberal: INVALID packets are let through

  bool operator==(const CompileContext&) const = default;
};

// Whether 127.0.0.1 answers node ports here, with route_localnet.
bool LocalhostNodePorts(const model::ServiceSettings& settings, bool v6);

// Matches of which one holds for a packet of a pod of this node; none: nobody is one.
std::vector<std::string> PodMatches(const CompileContext& context);
// Matches of which one holds for a packet to an address where node ports answer.
std::vector<std::string> NodePortMatches(const CompileContext& context);
// The rule's end that marks packets of whom is no pod of this node.
std::string MarkForeign(const CompileContext& context);

// -m comment --comment …, with a space after it, of what may stand in a line.
std::string Comment(std::string_view text);

BaseRules CompileBase(const CompileContext& context);
// The one rule of KUBE-FIREWALL, without "-A KUBE-FIREWALL ".
std::string FirewallRule();

}  // namespace holdfast::netproxy::iptables
