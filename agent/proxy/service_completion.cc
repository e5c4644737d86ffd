// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_completion.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "agent/kube/pod_identity.h"
#include "agent/proxy/convert.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

using model::ServiceName;

// Addresses are taken from the upper part of the range first: the lower ones are those that people
// choose by hand (as Kubernetes does).
constexpr uint32_t kMostLowerAddresses = 256;
constexpr uint32_t kMostOfARange = 1u << 20;  // of one range

std::string Text(const ServiceName& name) { return StrCat(name.object_namespace, "/", name.name); }

std::string PortKeyOf(const corev1::ServicePort& port) {
  return StrCat(port.protocol(), "/", port.port());
}

// An offset below `size` that follows from the name.
uint32_t Start(const std::string& name, uint32_t size) {
  const std::string hash = kube::HashFnv128a(name);
  return static_cast<uint32_t>(std::stoull(hash.substr(0, 15), nullptr, 16) % size);
}

IpAddress Offset(const IpAddress& base, uint32_t offset) {
  IpAddress address = base;
  uint64_t carry = offset;
  for (size_t i = address.size(); i-- > 0 && carry != 0;) {
    carry += address.bytes[i];
    address.bytes[i] = static_cast<uint8_t>(carry & 0xff);
    carry >>= 8;
  }
  return address;
}

// Numbers 1 to size - 2: neither the range's own address nor its last one.
uint32_t SizeOf(const Cidr& range) {
  const int host_bits = range.network.MaxPrefix() - range.prefix;
  return host_bits >= 20 ? kMostOfARange : 1u << host_bits;
}

std::optional<IpAddress> PickAddress(const Cidr& range, const std::string& name,
                                     const TakenAddresses& taken) {
  const uint32_t size = SizeOf(range);
  if (size < 4) return std::nullopt;
  const uint32_t lower =
      std::min(std::max(std::min(size / 2, 16u), size / 16), kMostLowerAddresses);
  const uint32_t last = size - 2;
  const auto scan = [&](uint32_t from, uint32_t to) -> std::optional<IpAddress> {
    if (from > to) return std::nullopt;
    const uint32_t count = to - from + 1;
    const uint32_t start = Start(name, count);
    for (uint32_t i = 0; i < count; ++i) {
      const IpAddress address = Offset(range.network, from + (start + i) % count);
      if (taken.IsFree(address)) return address;
    }
    return std::nullopt;
  };
  if (auto upper = scan(lower, last)) return upper;
  return scan(1, lower - 1);
}

class Completion {
 public:
  Completion(corev1::Service* service, const ServiceRecord& old, const ServiceRanges& ranges,
             const TakenAddresses& taken, const ServiceName& name)
      : spec_(*service->mutable_spec()), old_(old), ranges_(ranges), taken_(taken), name_(name) {
    out_.record.created = old.created;
  }

  CompletedService Run() {
    if (spec_.type() == "ExternalName") return std::move(out_);
    ClusterIps();
    NodePorts();
    HealthCheckPort();
    return std::move(out_);
  }

 private:
  bool HasNodePorts() const { return spec_.type() == "NodePort" || spec_.type() == "LoadBalancer"; }

  void Trouble(const std::string& reason, std::string message) {
    out_.troubles.push_back({reason, std::move(message)});
  }

  static const char* FamilyName(bool v6) { return v6 ? "IPv6" : "IPv4"; }

  const Cidr* RangeOf(bool v6) const {
    for (const Cidr& range : ranges_.cluster_ips) {
      if (range.network.v6 == v6) return &range;
    }
    return nullptr;
  }

  // The families in the order of the service's addresses; the second one only by policy.
  std::vector<bool> Families() {
    std::vector<bool> families;
    const auto add = [&](bool v6) {
      if (std::find(families.begin(), families.end(), v6) == families.end()) families.push_back(v6);
    };
    for (const std::string& ip : spec_.clusterips()) {
      if (ip != kHeadlessIp) add(ip.find(':') != std::string::npos);
    }
    if (spec_.clusterips().empty() && !spec_.clusterip().empty() &&
        spec_.clusterip() != kHeadlessIp) {
      add(spec_.clusterip().find(':') != std::string::npos);
    }
    for (const std::string& family : spec_.ipfamilies()) add(family == "IPv6");
    if (families.empty() && !ranges_.cluster_ips.empty()) {
      add(ranges_.cluster_ips.front().network.v6);
    }
    const std::string& policy = spec_.ipfamilypolicy();
    if (policy == "PreferDualStack" || policy == "RequireDualStack") {
      for (const Cidr& range : ranges_.cluster_ips) add(range.network.v6);
    }
    if (policy == "RequireDualStack" && families.size() < 2) {
      Trouble("ClusterIPNotAllocated",
              "the service requires both IP families, but there is a service range of one only");
    }
    return families;
  }

  void ClusterIps() {
    const bool headless = spec_.clusterip() == kHeadlessIp;
    const std::vector<bool> families = Families();
    std::vector<std::string> wanted(spec_.clusterips().begin(), spec_.clusterips().end());
    if (wanted.empty() && !spec_.clusterip().empty()) wanted.push_back(spec_.clusterip());
    spec_.clear_clusterip();
    spec_.clear_clusterips();
    spec_.clear_ipfamilies();
    for (const bool v6 : families) {
      spec_.add_ipfamilies(FamilyName(v6));
      if (!headless) Assign(v6, wanted);
    }
    if (spec_.ipfamilypolicy().empty()) {
      spec_.set_ipfamilypolicy(families.size() > 1 ? "RequireDualStack" : "SingleStack");
    }
    if (headless) spec_.add_clusterips(kHeadlessIp);
    if (spec_.clusterips_size() > 0) spec_.set_clusterip(spec_.clusterips(0));
    if (!headless) {
      out_.record.cluster_ips.assign(spec_.clusterips().begin(), spec_.clusterips().end());
    }
  }

  void Assign(bool v6, const std::vector<std::string>& wanted) {
    const Cidr* range = RangeOf(v6);
    if (range == nullptr) {
      return Trouble("ClusterIPNotAllocated",
                     StrCat("no service range of family ", FamilyName(v6), " is configured"));
    }
    for (const std::string& text : wanted) {
      const auto address = IpAddress::Parse(text);
      if (address && address->v6 == v6) return AssignWanted(*address, *range);
    }
    for (const std::string& text : old_.cluster_ips) {
      const auto address = IpAddress::Parse(text);
      if (address && range->Contains(*address)) return spec_.add_clusterips(text);
    }
    const auto free = PickAddress(*range, Text(name_), taken_);
    if (!free) {
      return Trouble("ClusterIPNotAllocated", StrCat("range ", range->ToString(), " is full"));
    }
    spec_.add_clusterips(free->ToString());
  }

  void AssignWanted(const IpAddress& address, const Cidr& range) {
    if (!range.Contains(address)) {
      return Trouble("ClusterIPOutOfRange",
                     StrCat("cluster IP ", address.ToString(), " is not within the service range ",
                            range.ToString()));
    }
    if (const ServiceName* owner = taken_.OtherOwner(address, name_)) {
      return Trouble("ClusterIPAlreadyAllocated", StrCat("cluster IP ", address.ToString(),
                                                         " belongs to service ", Text(*owner)));
    }
    spec_.add_clusterips(address.ToString());
  }

  void NodePorts() {
    const bool wants = HasNodePorts() && !(spec_.type() == "LoadBalancer" &&
                                           spec_.has_allocateloadbalancernodeports() &&
                                           !spec_.allocateloadbalancernodeports());
    for (corev1::ServicePort& port : *spec_.mutable_ports()) {
      if (!HasNodePorts()) {
        port.clear_nodeport();
      } else if (port.nodeport() != 0) {
        CheckNodePort(port);
      } else if (wants) {
        GiveNodePort(port);
      }
      if (port.nodeport() == 0) continue;
      out_.record.node_ports[PortKeyOf(port)] = static_cast<uint16_t>(port.nodeport());
    }
  }

  void CheckNodePort(corev1::ServicePort& port) {
    if (const auto why = WhyNot(port.nodeport(), port.protocol())) {
      Trouble(why->reason, why->message);
      port.clear_nodeport();
    }
  }

  std::optional<ServiceTrouble> WhyNot(int32_t port, const std::string& protocol) const {
    if (port < ranges_.first_node_port || port > ranges_.last_node_port) {
      return ServiceTrouble{"PortOutOfRange",
                            StrCat("node port ", port, " is not within ", ranges_.first_node_port,
                                   "-", ranges_.last_node_port)};
    }
    if (const auto* owner = taken_.OtherOwner(static_cast<uint16_t>(port), protocol, name_)) {
      return ServiceTrouble{"PortAlreadyAllocated", StrCat("node port ", port, " (", protocol,
                                                           ") belongs to service ", Text(*owner))};
    }
    return std::nullopt;
  }

  void GiveNodePort(corev1::ServicePort& port) {
    const std::string key = PortKeyOf(port);
    const auto before = old_.node_ports.find(key);
    if (before != old_.node_ports.end() && !IsUsedByThis(before->second) &&
        !WhyNot(before->second, port.protocol())) {
      return port.set_nodeport(before->second);
    }
    port.set_nodeport(PickPort(StrCat(Text(name_), "/", key)));
  }

  // A port that neither another service nor this one has; 0 when there is none.
  uint16_t PickPort(const std::string& seed) {
    const uint32_t count = ranges_.last_node_port - ranges_.first_node_port + 1u;
    const uint32_t start = Start(seed, count);
    for (uint32_t i = 0; i < count; ++i) {
      const auto port = static_cast<uint16_t>(ranges_.first_node_port + (start + i) % count);
      if (taken_.IsFree(port) && !IsUsedByThis(port)) return port;
    }
    Trouble("PortRangeFull", StrCat("no node port is free within ", ranges_.first_node_port, "-",
                                    ranges_.last_node_port));
    return 0;
  }

  bool IsUsedByThis(int32_t port) const {
    const auto& ports = spec_.ports();
    return spec_.healthchecknodeport() == port ||
           std::any_of(ports.begin(), ports.end(),
                       [&](const corev1::ServicePort& p) { return p.nodeport() == port; });
  }

  void HealthCheckPort() {
    if (spec_.type() != "LoadBalancer" || spec_.externaltrafficpolicy() != "Local") {
      spec_.clear_healthchecknodeport();
      return;
    }
    if (const int32_t wanted = spec_.healthchecknodeport(); wanted != 0) {
      if (const auto why = WhyNot(wanted, "TCP")) {
        Trouble(why->reason, why->message);
        spec_.clear_healthchecknodeport();
      }
    } else if (old_.health_check_port != 0 && !WhyNot(old_.health_check_port, "TCP")) {
      spec_.set_healthchecknodeport(old_.health_check_port);
    } else {
      spec_.set_healthchecknodeport(PickPort(Text(name_) + "/healthCheck"));
    }
    out_.record.health_check_port = static_cast<uint16_t>(spec_.healthchecknodeport());
  }

  corev1::ServiceSpec& spec_;
  const ServiceRecord& old_;
  const ServiceRanges& ranges_;
  const TakenAddresses& taken_;
  const ServiceName& name_;
  CompletedService out_;
};

}  // namespace

void TakenAddresses::Claim(const ServiceName& name, const ServiceRecord& record) {
  Held& held = held_[name];
  const auto take_port = [&](uint16_t port, const std::string& protocol) {
    if (ports_.emplace(PortKey(port, protocol), name).second) {
      held.ports.emplace_back(port, protocol);
    }
  };
  for (const std::string& text : record.cluster_ips) {
    const auto address = IpAddress::Parse(text);
    if (address && addresses_.emplace(*address, name).second) held.addresses.push_back(*address);
  }
  for (const auto& [key, port] : record.node_ports) take_port(port, key.substr(0, key.find('/')));
  if (record.health_check_port != 0) take_port(record.health_check_port, "TCP");
}

void TakenAddresses::Release(const ServiceName& name) {
  const auto found = held_.find(name);
  if (found == held_.end()) return;
  for (const IpAddress& address : found->second.addresses) addresses_.erase(address);
  for (const PortKey& port : found->second.ports) ports_.erase(port);
  held_.erase(found);
}

const ServiceName* TakenAddresses::OtherOwner(const IpAddress& address,
                                              const ServiceName& self) const {
  const auto found = addresses_.find(address);
  return found == addresses_.end() || found->second == self ? nullptr : &found->second;
}

const ServiceName* TakenAddresses::OtherOwner(uint16_t port, const std::string& protocol,
                                              const ServiceName& self) const {
  const auto found = ports_.find({port, protocol});
  return found == ports_.end() || found->second == self ? nullptr : &found->second;
}

bool TakenAddresses::IsFree(uint16_t port) const {
  const auto at = ports_.lower_bound({port, ""});
  return at == ports_.end() || at->first.first != port;
}

CompletedService CompleteService(corev1::Service* service, const ServiceRecord& old,
                                 const ServiceRanges& ranges, const TakenAddresses& taken,
                                 const ServiceName& name) {
  return Completion(service, old, ranges, taken, name).Run();
}

}  // namespace holdfast::agent
