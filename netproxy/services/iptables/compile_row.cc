// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/compile_row.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {
namespace {

using model::EndpointList;
using model::Frontend;
using model::FrontendAnswer;
using model::FrontendKind;

constexpr uint8_t kEverybody = model::kFromPod | model::kFromNode | model::kFromOutside;
constexpr uint8_t kForeign = model::kFromNode | model::kFromOutside;

std::string Probability(size_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10f", 1.0 / static_cast<double>(n));
  return text;
}

// What of a frontend decides where its packets go; frontends that agree in it share a chain.
struct Policy {
  EndpointList inside;
  EndpointList outside;
  uint8_t masquerade;
  auto operator<=>(const Policy&) const = default;
};

class RowCompiler {
 public:
  RowCompiler(const model::ServicePortRow& row, const CompileContext& context)
      : row_(row),
        context_(context),
        name_(row.key.name),
        protocol_(ToString(row.protocol)),
        match_(StrCat("-m ", protocol_, " -p ", protocol_, " ")),
        pods_(PodMatches(context)) {}

  RowRules Compile() {
    for (const Frontend& frontend : row_.frontends) {
      AddServed(frontend);
      AddUnserved(frontend);
    }
    FinishLists();
    FinishFirewalls();
    AddHealthCheck();
    for (auto& [name, body] : chains_) out_.chains.push_back({name, std::move(body)});
    return std::move(out_);
  }

 private:
  bool Serves(EndpointList list) const { return AnswerOf(row_, list) == FrontendAnswer::kServe; }

  void Line(SharedChain chain, const std::string& rule) {
    out_.lines[Index(chain)] += StrCat("-A ", NameOf(chain), " ", rule, "\n");
  }
  void Rule(const std::string& chain, const std::string& rule) {
    chains_[chain] += StrCat("-A ", chain, " ", rule, "\n");
  }

  // The frontend's packets, by destination; a node port's by each range in which it answers.
  std::vector<std::string> Destinations(const Frontend& frontend) const {
    if (frontend.kind != FrontendKind::kNodePort) {
      return {StrCat(match_, "-d ", frontend.address.ToString(), " --dport ", frontend.port, " ")};
    }
    std::vector<std::string> out = NodePortMatches(context_);
    for (std::string& match : out) match += StrCat(match_, "--dport ", frontend.port, " ");
    return out;
  }

  std::string CommentFor(const Frontend& frontend) const {
    switch (frontend.kind) {
      case FrontendKind::kClusterIp:
        return Comment(StrCat(name_, " cluster IP"));
      case FrontendKind::kExternalIp:
        return Comment(StrCat(name_, " external IP"));
      case FrontendKind::kLoadBalancerIp:
        return Comment(StrCat(name_, " loadbalancer IP"));
      case FrontendKind::kNodePort:
        return Comment(name_);
    }
    return "";
  }
  // Left out where there are too many.
  std::string EndpointComment(const std::string& text) const {
    return context_.large ? "" : Comment(text);
  }

  // --- nat: packets that somebody answers ---

  void AddServed(const Frontend& frontend) {
    if (!Serves(frontend.inside) && !Serves(frontend.outside)) return;
    const std::string chain = TargetOf(frontend);
    if (frontend.kind == FrontendKind::kNodePort) {
      Line(SharedChain::kNatNodePorts,
           StrCat(CommentFor(frontend), match_, "--dport ", frontend.port, " -j ", chain));
      return;
    }
    Line(SharedChain::kNatServices,
         StrCat(CommentFor(frontend), Destinations(frontend).front(), "-j ", chain));
  }

  std::string TargetOf(const Frontend& frontend) {
    if (frontend.kind == FrontendKind::kClusterIp && frontend.inside == frontend.outside &&
        (frontend.masquerade == 0 || frontend.masquerade == kEverybody ||
         frontend.masquerade == kForeign)) {
      return ClusterIpTarget(frontend);
    }
    const std::string external = ExternalChain(PolicyOf(frontend));
    if (!frontend.restricted) return external;
    firewalls_[external].push_back(&frontend);
    return FirewallChain(external);
  }

  static Policy PolicyOf(const Frontend& frontend) {
    return {frontend.inside, frontend.outside,
            static_cast<uint8_t>(frontend.masquerade & kEverybody)};
  }

  // A cluster IP needs no chain between: what it marks is told by its address.
  std::string ClusterIpTarget(const Frontend& frontend) {
    const std::string chain = ListChain(frontend.inside);
    if (frontend.masquerade != 0) {
      Rule(chain, StrCat(CommentFor(frontend), Destinations(frontend).front(),
                         frontend.masquerade == kForeign ? MarkForeign(context_)
                                                         : StrCat("-j ", kMarkMasq)));
    }
    return chain;
  }

  std::string ListChain(EndpointList list) {
    used_lists_.insert(list);
    return ServiceChain(list == EndpointList::kCluster ? "KUBE-SVC-" : "KUBE-SVL-", row_);
  }

  std::string ExternalChain(const Policy& policy) {
    const auto known = externals_.find(policy);
    if (known != externals_.end()) return known->second;
    const std::string variant = externals_.empty() ? "" : StrCat("#", externals_.size());
    const std::string chain = ServiceChain("KUBE-EXT-", row_, variant);
    externals_[policy] = chain;
    if (policy.inside == policy.outside &&
        (policy.masquerade == 0 || policy.masquerade == kEverybody)) {
      if (policy.masquerade != 0) Mark(chain, "masquerade traffic for ", "");
      Rule(chain, StrCat("-j ", ListChain(policy.outside)));
    } else {
      AddBySource(chain, policy);
    }
    return chain;
  }

  // From a pod of this node, else from the node, else from outside: the first that holds decides.
  void AddBySource(const std::string& chain, const Policy& policy) {
    const std::string inside =
        Serves(policy.inside) ? ListChain(policy.inside) : std::string("RETURN");
    for (const std::string& pod : pods_) {
      if (policy.masquerade & model::kFromPod) Mark(chain, "masquerade pod traffic for ", pod);
      Rule(chain, StrCat(External("pod traffic for "), pod, "-j ", inside));
    }
    constexpr std::string_view kLocal = "-m addrtype --src-type LOCAL ";
    if (policy.masquerade & model::kFromNode) Mark(chain, "masquerade LOCAL traffic for ", kLocal);
    Rule(chain, StrCat(External("route LOCAL traffic for "), kLocal, "-j ", inside));
    if (!Serves(policy.outside)) return;
    if (policy.masquerade & model::kFromOutside) Mark(chain, "masquerade traffic for ", "");
    Rule(chain, StrCat("-j ", ListChain(policy.outside)));
  }

  std::string External(std::string_view what) const {
    return Comment(StrCat(what, name_, " external destinations"));
  }
  void Mark(const std::string& chain, std::string_view what, std::string_view match) {
    Rule(chain, StrCat(External(what), match, "-j ", kMarkMasq));
  }

  // --- nat: source ranges ---

  std::string FirewallChain(const std::string& external) const {
    return StrCat("KUBE-FW-", std::string_view(external).substr(sizeof "KUBE-EXT-" - 1));
  }

  void FinishFirewalls() {
    for (const auto& [external, frontends] : firewalls_) {
      const std::string chain = FirewallChain(external);
      std::set<Cidr> ranges;
      for (const Frontend* frontend : frontends) {
        ranges.insert(frontend->source_ranges.begin(), frontend->source_ranges.end());
      }
      for (const Cidr& range : ranges) AddRange(chain, external, range, frontends);
      std::string last =
          Comment(StrCat("other traffic to ", name_, " will be dropped by ", kProxyFirewall));
      last.pop_back();  // it has no target
      Rule(chain, last);
    }
  }

  // A range that all addresses have needs no destination.
  void AddRange(const std::string& chain, const std::string& external, const Cidr& range,
                const std::vector<const Frontend*>& frontends) {
    std::vector<const Frontend*> having;
    for (const Frontend* frontend : frontends) {
      const auto& own = frontend->source_ranges;
      if (std::binary_search(own.begin(), own.end(), range)) having.push_back(frontend);
    }
    const std::string end = StrCat("-s ", range.ToString(), " -j ", external);
    if (having.size() == frontends.size()) {
      Rule(chain, StrCat(CommentFor(*having.front()), end));
      return;
    }
    for (const Frontend* frontend : having) {
      Rule(chain, StrCat(CommentFor(*frontend), "-d ", frontend->address.ToString(), " ", end));
    }
  }

  // --- nat: endpoints ---

  void FinishLists() {
    std::set<model::Endpoint> used;
    for (const EndpointList list : used_lists_) {
      const auto& endpoints = EndpointsOf(row_, list);
      AddChoice(ListChain(list), endpoints);
      used.insert(endpoints.begin(), endpoints.end());
    }
    for (const model::Endpoint& endpoint : used) AddEndpoint(endpoint);
  }

  void AddChoice(const std::string& chain, const std::vector<model::Endpoint>& endpoints) {
    std::vector<std::string> comments;
    std::vector<std::string> targets;
    for (const model::Endpoint& endpoint : endpoints) {
      comments.push_back(EndpointComment(StrCat(name_, " -> ", ToString(endpoint))));
      targets.push_back(EndpointChain(row_, endpoint));
    }
    if (row_.affinity.count() > 0) {
      for (size_t i = 0; i < targets.size(); ++i) {
        Rule(chain, StrCat(comments[i], "-m recent --name ", targets[i], " --rcheck --seconds ",
                           row_.affinity.count(), " --reap -j ", targets[i]));
      }
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      const size_t left = targets.size() - i;
      const std::string chance =
          left == 1 ? ""
                    : StrCat("-m statistic --mode random --probability ", Probability(left), " ");
      Rule(chain, StrCat(comments[i], chance, "-j ", targets[i]));
    }
  }

  void AddEndpoint(const model::Endpoint& endpoint) {
    const std::string chain = EndpointChain(row_, endpoint);
    const std::string comment = EndpointComment(name_);
    // To itself by way of the service: the answer must come back through the node.
    Rule(chain, StrCat(comment, "-s ", endpoint.ip.ToString(), " -j ", kMarkMasq));
    const std::string remember =
        row_.affinity.count() > 0 ? StrCat("-m recent --name ", chain, " --set ") : "";
    Rule(chain, StrCat(comment, remember, match_, "-j DNAT --to-destination ", ToString(endpoint)));
  }

  // --- filter: packets that nobody answers ---

  void AddUnserved(const Frontend& frontend) {
    AddSourceRanges(frontend);
    const bool inside = Serves(frontend.inside);
    if (inside && Serves(frontend.outside)) return;
    const bool refuse = row_.cluster.empty();
    const std::string comment =
        Comment(StrCat(name_, refuse ? " has no endpoints" : " has no local endpoints"));
    for (const std::string& destination : Destinations(frontend)) {
      const std::string rule = StrCat(comment, destination, refuse ? "-j REJECT" : "-j DROP");
      if (frontend.kind != FrontendKind::kClusterIp) Line(SharedChain::kFilterExternal, rule);
      // KUBE-EXTERNAL-SERVICES does not see what the node itself sends.
      if (frontend.kind == FrontendKind::kClusterIp || !inside) {
        Line(SharedChain::kFilterServices, rule);
      }
    }
  }

  void AddSourceRanges(const Frontend& frontend) {
    if (!frontend.restricted) return;
    const std::string destination = Destinations(frontend).front();
    const bool served = Serves(frontend.inside) || Serves(frontend.outside);
    // With endpoints, what is allowed has another destination by now; without, it gets its refusal.
    if (!served) {
      for (const Cidr& range : frontend.source_ranges) {
        Line(SharedChain::kFilterFirewall,
             StrCat(CommentFor(frontend), "-s ", range.ToString(), " ", destination, "-j RETURN"));
      }
    }
    const std::string by =
        served ? FirewallChain(ExternalChain(PolicyOf(frontend))) : "the source ranges";
    Line(SharedChain::kFilterFirewall,
         StrCat(Comment(StrCat(name_, " traffic not accepted by ", by)), destination, "-j DROP"));
  }

  void AddHealthCheck() {
    if (row_.health_check_port == 0) return;
    Line(SharedChain::kFilterNodePorts,
         StrCat(Comment(StrCat(name_, " health check node port")), "-m tcp -p tcp --dport ",
                row_.health_check_port, " -j ACCEPT"));
  }

  const model::ServicePortRow& row_;
  const CompileContext& context_;
  const std::string& name_;
  const std::string_view protocol_;
  const std::string match_;
  const std::vector<std::string> pods_;
  RowRules out_;
  std::map<std::string, std::string> chains_;
  std::set<EndpointList> used_lists_;
  std::map<Policy, std::string> externals_;
  std::map<std::string, std::vector<const Frontend*>> firewalls_;  // by the chain behind
};

}  // namespace

RowRules CompileRow(const model::ServicePortRow& row, const CompileContext& context) {
  return RowCompiler(row, context).Compile();
}

}  // namespace holdfast::netproxy::iptables
