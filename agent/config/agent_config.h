// SPDX-License-Identifier: Apache-2.0
// AgentConfig: everything that can be set for one agent, by flag or in its configuration file
// (apiVersion holdfast.dev/v1, kind AgentConfiguration). Built-in < file < flags.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config/eviction.h"
#include "holdfast/base/result.h"
#include "holdfast/model/instance.h"
#include "holdfast/model/proxy_table.h"

namespace holdfast::agent {

// Amounts of what pods share.
struct NodeAmounts {
  int64_t cpu_milli = 0;
  int64_t memory_bytes = 0;
  int64_t pids = 0;
  bool operator==(const NodeAmounts&) const = default;
};

// Programs beside the agent's own binary.
struct ProgramsConfig {
  std::string keeper;  // "" is for a keeper that systemd starts
  std::string init;
  std::string unpack;
  std::string fetch;
};

// "dedicated=gpu:NoSchedule".
struct NodeTaint {
  std::string key, value, effect;
  bool operator==(const NodeTaint&) const = default;
};

// How much of the node is for pods, and which of them it takes.
struct NodeConfig {
  // Of the node's capacity, not for pods. 0 of memory or pids in both: DefaultReserve.
  NodeAmounts kube_reserved;
  NodeAmounts system_reserved;
  uint32_t max_pods = 110;  // that the node takes
  // What pods may set beside the safe sysctls: names, or beginnings with '*' at the end.
  std::vector<std::string> allowed_unsafe_sysctls;
  // Of RuntimeClasses, that mean the one runtime there is; what containerd's users have is called runc.
  std::vector<std::string> runtime_handlers{"holdfast", "runc"};
  std::map<std::string, std::string> labels;  // beside those that say what the machine is
  std::vector<NodeTaint> taints;              // that it is registered with
  int64_t pod_pids_limit = 1024;         // processes and threads of one pod; 0 and -1: no limit
  bool enforce_allocatable = true;       // pods together get no more than what is left
  bool fail_swap_on = false;             // the agent does not start on a node that swaps
  std::string swap_behavior = "NoSwap";  // or LimitedSwap
  bool memory_qos = false;               // memory.high, and what is below, with cgroup v2
  double memory_throttling_factor = 0.9;
  std::string memory_reservation = "None";  // or TieredReservation
  bool single_process_oom_kill = false;     // cgroup v2: not all processes of a container at once
  EvictionConfig eviction;
  std::vector<std::string> ips;  // that it is known by, the first is primary; none: found
};

// The cluster that the node is part of; without a kubeconfig it stands alone.
struct ClusterConfig {
  std::string kubeconfig;
  bool register_node = true;
  // Of what pods are made from, on the disk, so that they start without the API server: "public", no Secrets, or "all".
  std::string keep_inputs = "public";
  std::string node_tunnel = "vxlan";  // to pods of nodes on no link of this one; or "none"
  // How the node asks for its first certificate; the kubeconfig is written then.
  std::string bootstrap_kubeconfig;
  std::string certificate_directory;  // "" is <root_dir>/pki
  bool rotate_certificates = true;    // those of the directory, before they end
  bool server_tls_bootstrap = false;  // ask for a certificate for the node's own server
};

// The node's HTTPS server, as a kubelet's. Without a cluster it is off unless there is a client_ca_file.
struct NodeServerConfig {
  std::string address = "0.0.0.0";
  uint32_t port = 10250;                            // 0: off
  std::string tls_cert_file, tls_private_key_file;  // "": one that is made here
  std::string tls_min_version = "VersionTLS12";
  std::vector<std::string> tls_cipher_suites;  // empty: the library's
  std::string client_ca_file;                  // "": client certificates prove nothing
  bool anonymous = false;
  bool token_webhook = true;  // bearer tokens, by TokenReview
  std::chrono::seconds token_cache{120};
  std::string authorization_mode = "Webhook";  // or AlwaysAllow
  std::chrono::seconds allowed_cache{300}, denied_cache{30};
  bool debugging_handlers = true;                        // logs, exec and the like
  bool system_log_handler = true;                        // files below /var/log
  std::string healthz_bind_address = "127.0.0.1:10248";  // without TLS; "" is nowhere

  bool IsOn(bool in_cluster) const { return port != 0 && (in_cluster || !client_ca_file.empty()); }
};

// How images are pulled.
struct ImagePullConfig {
  // <directory>/<registry>/hosts.toml: mirrors, certificates and the rest of a registry's hosts.
  std::string registry_config_path = "/etc/containerd/certs.d";
  // A registries.conf that says what short names are to people; "": docker.io's.
  std::string short_names_path;
  // A policy.json that says which images may be pulled and imported; "": all.
  std::string signature_policy_path;
  bool serialize = true;                // one after the other
  uint32_t max_parallel = 0;            // when they are not; 0: as many as pods want
  uint32_t per_second = 5, burst = 10;  // that begin; those that share one count once. 0: no limit
  // Of which images that are here pods show that they may have them, and which need not.
  std::string verification = "NeverVerifyPreloadedImages";
  std::vector<std::string> verification_allowlist;
  // A CredentialProviderConfig, or a directory of them, and where its programs are; "" both for none.
  std::string provider_config, provider_programs;
  // Archives in it are imported and pinned; "": none.
  std::string archive_directory;
};

// When images that nothing needs go, as a kubelet has it.
struct ImageGcConfig {
  uint32_t high_percent = 85;  // of their file system in use: it begins; 100: never
  uint32_t low_percent = 80;   // and goes on down to this
  std::chrono::seconds minimum_age{120};
  std::chrono::seconds maximum_age{0};  // unused for longer, they go anyway; 0: they do not
};

// What pods' networks are made by.
struct PodNetworkConfig {
  std::string kind = "built-in";  // or "cni"
  // Of cni: configuration, programs in the order in which they are looked for, what is remembered of pods ("" is
  // <root_dir>/cni), and where programs see the pods' namespaces.
  std::string cni_config_directory = "/etc/cni/net.d";
  std::vector<std::string> cni_plugin_directories = {"/opt/cni/bin", "/usr/lib/cni"};
  std::string cni_cache_directory;
  std::string cni_netns_directory = "/run/netns";

  bool IsCni() const { return kind == "cni"; }
};

struct ContainerLogConfig {
  uint64_t max_size_bytes = 10ull << 20;
  uint32_t max_files = 5;
};

// On which interfaces which addresses of Services are answered for, and who does it of several
// nodes; nowhere by default.
struct AnnounceConfig {
  std::vector<std::string> interfaces;
  std::vector<std::string> addresses;
  uint32_t priority = 100;
  // How the API server is reached whose Leases decide who answers; "" where priorities do. Of its
  // own, since a node's credentials may not touch them.
  std::string kubeconfig;
};

// Of the mode ipvs; a timeout of 0 stays as the kernel has it.
struct IpvsConfig {
  std::string scheduler = "rr";
  std::vector<std::string> scheduler_flags;
  bool strict_arp = false;
  std::vector<std::string> exclude_cidrs;
  std::chrono::seconds tcp_timeout{0};
  std::chrono::seconds tcp_fin_timeout{0};
  std::chrono::seconds udp_timeout{0};
};

struct ProxyConfig {
  std::string mode = "nftables";  // who writes Services' rules; or "iptables", "ipvs"
  // Addresses of Services, one range per family, the first is primary; without an API server.
  std::vector<std::string> service_cidrs = {"10.96.0.0/16", "fd00:96::/112"};
  // Where node ports answer: ranges of the node's addresses, or "primary".
  std::vector<std::string> node_port_addresses = {"primary"};
  std::vector<std::string> allowed_external_ips;  // what externalIPs may name; none by default
  // Where the proxy answers, as "address:port"; "" is nowhere.
  std::string healthz_bind_address = "0.0.0.0:10256";
  std::string metrics_bind_address = "127.0.0.1:10249";
  AnnounceConfig announce;
  IpvsConfig ipvs;
};

struct AgentConfig {
  model::Instance instance;
  ProgramsConfig programs;
  NodeConfig node;
  ClusterConfig cluster;
  NodeServerConfig server;
  PodNetworkConfig pod_network;
  ContainerLogConfig container_log;
  ImagePullConfig image_pull;
  ImageGcConfig image_gc;
  ProxyConfig proxy;
  std::string cgroup_driver = "cgroupfs";  // or "systemd": names only
  std::string seccomp_dir;                 // profiles of type Localhost; "" is <root_dir>/seccomp
  std::chrono::seconds max_back_off{300};
  uint32_t workers = 8;
  uint32_t sandbox_pool_size = 4;  // sandboxes that lie ready for pods to come; 0: none
  std::string log_level = "info";  // trace, debug, info, warn, error
};

// Reads `text` on top of `config`. The error lists every fault, one per line, as
// "config.yaml:3:1: rootDirr: unknown field (did you mean "rootDir"?)".
Result<void> ReadConfigText(const std::string& text, const std::string& file, AgentConfig& config);

// All settings as a configuration file in JSON.
std::string ConfigJson(const AgentConfig& config);

// "192.0.2.1:80", "[2001:db8::1]:80"; nothing for "".
Result<std::optional<model::Endpoint>> ParseBindAddress(const std::string& text);

struct CommandLine {
  AgentConfig config;
  bool cleanup = false;  // --cleanup: take the node-wide parts away instead of running
  bool cleanup_kube_proxy = false;
  bool prepare_downgrade = false;
  bool exit = false;  // --help or --version was answered
  int exit_code = 0;
  std::string output;  // what to print before the exit
};

// Flags on top of the file named by --config. A wrong flag is an `exit` with code 2 and a message.
CommandLine ReadCommandLine(int argc, char** argv, std::string_view version);

// Fills in what depends on the machine (node name, sibling programs) and checks the whole.
// `executable` is the agent's own path.
Result<void> CompleteConfig(AgentConfig& config, const std::string& executable);

}  // namespace holdfast::agent
