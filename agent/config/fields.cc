// SPDX-License-Identifier: Apache-2.0
#include "agent/config/fields.h"

#include <cctype>
#include <charconv>

#include "agent/kube/quantity.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Values = std::vector<std::string>;
using Setter = std::function<Result<void>(AgentConfig&, const Values&)>;

Setter Text(std::string AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    c.*member = v.front();
    return {};
  };
}

Setter Text(std::string model::Instance::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    c.instance.*member = v.front();
    return {};
  };
}

// An absolute path without "." and ".."; the slash at the end is dropped.
Setter Path(std::string model::Instance::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    std::string path = v.front();
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    const std::string framed = path + "/";
    if (!path.starts_with('/') || framed.find("/../") != std::string::npos ||
        framed.find("/./") != std::string::npos) {
      return InvalidArgument(StrCat("\"", v.front(), "\" is not an absolute path"));
    }
    c.instance.*member = path;
    return {};
  };
}

Setter List(std::vector<std::string> model::Instance::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    c.instance.*member = v;
    return {};
  };
}

Setter List(std::vector<std::string> AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    c.*member = v;
    return {};
  };
}

Setter OneOf(std::string AgentConfig::* member, Values allowed) {
  return [member, allowed](AgentConfig& c, const Values& v) -> Result<void> {
    std::string known;
    for (const std::string& value : allowed) {
      if (v.front() == value) {
        c.*member = value;
        return {};
      }
      known += StrCat(known.empty() ? "" : ", ", value);
    }
    return InvalidArgument(StrCat("\"", v.front(), "\" is none of: ", known));
  };
}

Setter Bool(bool AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    if (v.front() != "true" && v.front() != "false") {
      return InvalidArgument(StrCat("\"", v.front(), "\" is none of: true, false"));
    }
    c.*member = v.front() == "true";
    return {};
  };
}

Setter BindAddress(std::string AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    const std::string text = v.empty() ? std::string() : v.front();
    const auto parsed = ParseBindAddress(text);
    if (!parsed) return parsed.error();
    c.*member = text;
    return {};
  };
}

Setter Number(uint32_t AgentConfig::* member, uint32_t least, uint32_t most) {
  return [=](AgentConfig& c, const Values& v) -> Result<void> {
    const std::string& text = v.front();
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      return InvalidArgument(StrCat("\"", text, "\" is not a number from ", least, " to ", most));
    }
    c.*member = value;
    return {};
  };
}

Setter Size(uint64_t AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    ASSIGN_OR_RETURN(const kube::Amount amount, kube::Amount::Parse(v.front()));
    if (amount.Units() < 4096) return InvalidArgument(StrCat("\"", v.front(), "\" is below 4Ki"));
    c.*member = static_cast<uint64_t>(amount.Units());
    return {};
  };
}

Result<void> SetAmount(const std::string& text, NodeAmounts& amounts) {
  const size_t split = text.find('=');
  if (split == std::string::npos) {
    return InvalidArgument(StrCat("\"", text, "\" is not of the form memory=1Gi"));
  }
  const std::string name = text.substr(0, split);
  ASSIGN_OR_RETURN(const kube::Amount amount, kube::Amount::Parse(text.substr(split + 1)));
  if (amount.IsNegative()) return InvalidArgument(StrCat(name, ": must not be negative"));
  if (name == "cpu") {
    amounts.cpu_milli = amount.Milli();
  } else if (name == "memory") {
    amounts.memory_bytes = amount.Units();
  } else if (name == "pid") {
    amounts.pids = amount.Units();
  } else {
    return InvalidArgument(StrCat("\"", name, "\" is none of: cpu, memory, pid"));
  }
  return {};
}

Setter Amounts(NodeAmounts AgentConfig::* member) {
  return [member](AgentConfig& c, const Values& v) -> Result<void> {
    NodeAmounts amounts;
    for (const std::string& text : v) RETURN_IF_ERROR(SetAmount(text, amounts));
    c.*member = amounts;
    return {};
  };
}

// A kubelet's list of what is enforced.
Result<void> SetEnforced(AgentConfig& c, const Values& v) {
  const bool none = v.empty() || (v.size() == 1 && v.front() == "none");
  for (const std::string& what : v) {
    if (none || what == "pods") continue;
    return InvalidArgument(StrCat("\"", what, "\" is none of: pods, none"));
  }
  c.enforce_node_allocatable = !none;
  return {};
}

// "300s", "5m", "1h30m", "90".
Result<std::chrono::seconds> ParseDuration(const std::string& text) {
  int64_t total = 0;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto parsed = std::from_chars(at, end, value);
    if (parsed.ec != std::errc() || value < 0 || value > 1'000'000) break;
    at = parsed.ptr;
    const char unit = at == end ? 's' : *at++;
    const int64_t factor = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
    if (factor == 0) break;
    total += value * factor;
    if (at == end) return std::chrono::seconds(total);
  }
  return InvalidArgument(StrCat("\"", text, "\" is not a duration such as 300s or 5m"));
}

constexpr int64_t kLongestTimeout = 30 * 24 * 3600;

Setter Duration(std::chrono::seconds AgentConfig::* member, int64_t least, int64_t most) {
  return [=](AgentConfig& c, const Values& v) -> Result<void> {
    ASSIGN_OR_RETURN(const std::chrono::seconds value, ParseDuration(v.front()));
    if (value.count() < least || value.count() > most) {
      return InvalidArgument(StrCat("\"", v.front(), "\" is not from ", least, "s to ", most, "s"));
    }
    c.*member = value;
    return {};
  };
}

}  // namespace

Result<std::optional<model::Endpoint>> ParseBindAddress(const std::string& text) {
  if (text.empty()) return std::optional<model::Endpoint>();
  const size_t colon = text.rfind(':');
  const auto wrong = [&] {
    return InvalidArgument(
        StrCat("\"", text, "\" is not of the form 192.0.2.1:80 or [2001:db8::1]:80"));
  };
  if (colon == std::string::npos) return wrong();
  std::string host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  const auto address = IpAddress::Parse(host);
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  if (!address || address->v6 != brackets || error != std::errc() || stop != end || port == 0) {
    return wrong();
  }
  return std::optional(model::Endpoint{*address, port});
}

std::string Field::Flag() const {
  std::string flag = "--";
  char before = 0;
  for (const char* c = name; *c != 0; ++c) {
    const bool upper = std::isupper(static_cast<unsigned char>(*c)) != 0;
    const bool starts_word =
        upper && before != 0 && std::islower(static_cast<unsigned char>(before));
    if (starts_word) flag.push_back('-');
    flag.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(*c))));
    before = *c;
  }
  return flag;
}

const std::vector<Field>& Fields() {
  using I = model::Instance;
  using A = AgentConfig;
  static const std::vector<Field> fields = {
      {"nodeName", "NAME", "name of this node, suffix of its static pods (default: the host name)",
       false, Text(&I::node_name)},
      {"rootDir", "DIR", "what survives a reboot: images, pods, addresses", false,
       Path(&I::root_dir)},
      {"runDir", "DIR", "sockets, log spools, exit records", false, Path(&I::run_dir)},
      {"manifestDir", "DIR", "manifests of the pods to run", false, Path(&I::manifest_dir)},
      {"podLogDir", "DIR", "log files", false, Path(&I::pod_log_dir)},
      {"containerLogDir", "DIR", "links to the log files", false, Path(&I::container_log_dir)},
      {"cgroupRoot", "DIR", "where the cgroup file systems are mounted", false,
       Path(&I::cgroup_root)},
      {"cgroupParent", "CGROUP", "cgroup below which the kubepods tree lies (default: the root)",
       false, Text(&I::cgroup_parent)},
      {"cgroupDriver", "NAME", "naming of cgroups: cgroupfs or systemd", false,
       OneOf(&A::cgroup_driver, {"cgroupfs", "systemd"})},
      {"interfacePrefix", "TEXT", "first letters of the pods' interfaces on the node", false,
       Text(&I::interface_prefix)},
      {"tableName", "NAME", "nftables table of this agent", false, Text(&I::table_name)},
      {"podCIDRs", "CIDR", "address ranges of the pods, one per family", true, List(&I::pod_cidrs)},
      {"serviceCIDRs", "CIDR", "address ranges of Services, one per family", true,
       List(&A::service_cidrs)},
      {"proxyMode", "NAME",
       "what Services are written with: nftables (the default), iptables or ipvs; SIGHUP reads it "
       "again",
       false, OneOf(&A::proxy_mode, {"nftables", "iptables", "ipvs"})},
      {"healthzBindAddress", "ADDRESS:PORT",
       "where /healthz and /livez of the service proxy answer (default 0.0.0.0:10256); \"\": "
       "nowhere",
       false, BindAddress(&A::healthz_bind_address)},
      {"metricsBindAddress", "ADDRESS:PORT",
       "where /metrics and /proxyMode of the service proxy answer (default 127.0.0.1:10249); \"\": "
       "nowhere",
       false, BindAddress(&A::metrics_bind_address)},
      {"nodePortAddresses", "CIDR", "where node ports answer: ranges, or primary (the default)",
       true, List(&A::node_port_addresses)},
      {"allowedExternalIPs", "CIDR", "ranges that externalIPs of Services may name (default: none)",
       true, List(&A::allowed_external_ips)},
      {"announceInterfaces", "NAME",
       "interfaces on which this node answers ARP and NDP for load balancer IPs and external IPs "
       "of Services (default: none)",
       true, List(&A::announce_interfaces)},
      {"announceAddresses", "CIDR", "ranges that it may answer for; needed with announceInterfaces",
       true, List(&A::announce_addresses)},
      {"announcePriority", "N",
       "of the nodes of a segment the one with the highest priority answers, 1 to 254 "
       "(default 100)",
       false, Number(&A::announce_priority, 1, 254)},
      {"ipvsScheduler", "NAME",
       "mode ipvs: who gets the next connection: rr (the default), wrr, lc, wlc, lblc, lblcr, dh, "
       "sh, mh, sed, nq",
       false, Text(&A::ipvs_scheduler)},
      {"ipvsSchedulerFlags", "FLAG", "mode ipvs: sh-port, sh-fallback, mh-port, mh-fallback", true,
       List(&A::ipvs_scheduler_flags)},
      {"ipvsStrictARP", "BOOL",
       "mode ipvs: true, so that somebody else may announce addresses of Services", false,
       Bool(&A::ipvs_strict_arp)},
      {"ipvsExcludeCIDRs", "CIDR", "mode ipvs: virtual servers in these ranges are left alone",
       true, List(&A::ipvs_exclude_cidrs)},
      {"ipvsTcpTimeout", "TIME", "mode ipvs: of idle TCP connections (default: the kernel's)",
       false, Duration(&A::ipvs_tcp_timeout, 0, kLongestTimeout)},
      {"ipvsTcpFinTimeout", "TIME", "mode ipvs: of TCP connections after a FIN", false,
       Duration(&A::ipvs_tcp_fin_timeout, 0, kLongestTimeout)},
      {"ipvsUdpTimeout", "TIME", "mode ipvs: of idle UDP flows", false,
       Duration(&A::ipvs_udp_timeout, 0, kLongestTimeout)},
      {"clusterDomain", "DOMAIN", "DNS domain of the cluster", false, Text(&I::cluster_domain)},
      {"clusterDNS", "ADDRESS", "DNS servers for dnsPolicy ClusterFirst", true,
       List(&I::cluster_dns)},
      {"resolvConf", "FILE", "the node's resolv.conf, for dnsPolicy Default", false,
       Path(&I::resolv_conf)},
      {"apiGroup", "GROUP", "group that may use the API socket", false, Text(&I::api_group)},
      {"seccompDir", "DIR", "seccomp profiles of type Localhost (default: <rootDir>/seccomp)",
       false, Text(&A::seccomp_dir)},
      {"containerLogMaxSize", "SIZE", "a log file is rotated at this size (default 10Mi)", false,
       Size(&A::log_max_size_bytes)},
      {"containerLogMaxFiles", "N", "log files kept per container, at least 2 (default 5)", false,
       Number(&A::log_max_files, 2, 1000)},
      {"maxContainerRestartPeriod", "TIME", "longest crash back-off, 1s to 300s (default 300s)",
       false, Duration(&A::max_back_off, 1, 300)},
      {"systemReserved", "NAME=AMOUNT",
       "cpu, memory and pid of the node that are the system's, not for pods", true,
       Amounts(&A::system_reserved), true},
      {"kubeReserved", "NAME=AMOUNT", "the same for the node's agents", true,
       Amounts(&A::kube_reserved), true},
      {"enforceNodeAllocatable", "NAME",
       "pods (the default): all pods together are limited to what is not reserved; or none", true,
       SetEnforced},
      {"workers", "N", "pods worked on at the same time (default 8)", false,
       Number(&A::workers, 1, 256)},
      {"keeperBinary", "FILE",
       "holdfast-keeper, started when it does not answer; \"\" where systemd does", false,
       Text(&A::keeper_binary)},
      {"initBinary", "FILE", "holdfast-init, process 1 of pods with a shared process namespace",
       false, Text(&A::init_binary)},
      {"unpackBinary", "FILE", "holdfast-unpack", false, Text(&A::unpack_binary)},
      {"logLevel", "LEVEL", "trace, debug, info, warn or error (default info)", false,
       OneOf(&A::log_level, {"trace", "debug", "info", "warn", "error"})},
  };
  return fields;
}

}  // namespace holdfast::agent
