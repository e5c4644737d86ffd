// SPDX-License-Identifier: Apache-2.0
#include "agent/config/fields.h"

#include "agent/config/access.h"
#include "holdfast/base/ascii.h"

namespace holdfast::agent::config {
namespace {

constexpr int64_t kLongestTimeout = 30 * 24 * 3600;
constexpr int64_t kLongestAge = 10LL * 365 * 24 * 3600;
constexpr uint32_t kMostPods = 100'000;
constexpr uint32_t kMostReady = 64;     // some 20 MB of the kernel's memory
constexpr int64_t kMostPids = 4 << 20;  // the kernel's PID_MAX_LIMIT

}  // namespace

std::string Field::Flag() const {
  std::string flag = "--";
  char before = 0;
  for (const char* c = name; *c != 0; ++c) {
    if (IsUpper(*c) && IsLower(before)) flag.push_back('-');
    flag.push_back(ToLower(*c));
    before = *c;
  }
  return flag;
}

// NOLINTNEXTLINE(readability-function-size): one table.
const std::vector<Field>& Fields() {
  using I = model::Instance;
  using A = AgentConfig;
  const auto instance = [](auto member) { return At(&A::instance, member); };
  const auto programs = [](auto member) { return At(&A::programs, member); };
  const auto node = [](auto member) { return At(&A::node, member); };
  const auto eviction = [](auto member) { return At(&A::node, &NodeConfig::eviction, member); };
  const auto cluster = [](auto member) { return At(&A::cluster, member); };
  const auto server = [](auto member) { return At(&A::server, member); };
  using S = NodeServerConfig;
  const auto pod_network = [](auto member) { return At(&A::pod_network, member); };
  const auto container_log = [](auto member) { return At(&A::container_log, member); };
  const auto image_pull = [](auto member) { return At(&A::image_pull, member); };
  const auto image_gc = [](auto member) { return At(&A::image_gc, member); };
  const auto proxy = [](auto member) { return At(&A::proxy, member); };
  const auto announce = [](auto member) { return At(&A::proxy, &ProxyConfig::announce, member); };
  const auto ipvs = [](auto member) { return At(&A::proxy, &ProxyConfig::ipvs, member); };
  static const std::vector<Field> fields = {
      {"nodeName", "NAME", "name of this node, suffix of its static pods (default: the host name)",
       false, Text(instance(&I::node_name))},
      {"rootDir", "DIR", "what survives a reboot: images, pods, addresses", false,
       Path(instance(&I::root_dir))},
      {"runDir", "DIR", "sockets, log spools, exit records", false, Path(instance(&I::run_dir))},
      {"manifestDir", "DIR", "manifests of the pods to run", false,
       Path(instance(&I::manifest_dir))},
      {"podLogDir", "DIR", "log files", false, Path(instance(&I::pod_log_dir))},
      {"containerLogDir", "DIR", "links to the log files", false,
       Path(instance(&I::container_log_dir))},
      {"cgroupRoot", "DIR", "where the cgroup file systems are mounted", false,
       Path(instance(&I::cgroup_root))},
      {"cgroupParent", "CGROUP", "cgroup below which the kubepods tree lies (default: the root)",
       false, Text(instance(&I::cgroup_parent))},
      {"cgroupDriver", "NAME", "naming of cgroups: cgroupfs or systemd", false,
       OneOf(At(&A::cgroup_driver), {"cgroupfs", "systemd"})},
      {"interfacePrefix", "TEXT", "first letters of the pods' interfaces on the node", false,
       Text(instance(&I::interface_prefix))},
      {"tableName", "NAME", "nftables table of this agent", false, Text(instance(&I::table_name))},
      {"podNetwork", "NAME",
       "what makes the pods' networks: built-in (the default) or cni, plugins of a configuration "
       "directory",
       false, OneOf(pod_network(&PodNetworkConfig::kind), {"built-in", "cni"})},
      {"cniConfDir", "DIR",
       "of podNetwork cni: the first *.conflist, *.conf or *.json in it is the pods' network "
       "(default /etc/cni/net.d)",
       false, Path(pod_network(&PodNetworkConfig::cni_config_directory))},
      {"cniBinDir", "DIR",
       "where the plugins' programs are, in the order in which they are looked for (default: "
       "/opt/cni/bin, /usr/lib/cni)",
       true, List(pod_network(&PodNetworkConfig::cni_plugin_directories))},
      {"cniCacheDir", "DIR",
       "what was asked of plugins and what they gave, per pod (default: <rootDir>/cni)", false,
       Text(pod_network(&PodNetworkConfig::cni_cache_directory))},
      {"cniNetnsDir", "DIR",
       "where plugins see the network namespaces of pods (default /run/netns)", false,
       Path(pod_network(&PodNetworkConfig::cni_netns_directory))},
      {"podCIDRs", "CIDR", "address ranges of the pods, one per family", true,
       List(instance(&I::pod_cidrs))},
      {"serviceCIDRs", "CIDR", "address ranges of Services, one per family", true,
       List(proxy(&ProxyConfig::service_cidrs))},
      {"proxyMode", "NAME",
       "what Services are written with: nftables (the default), iptables or ipvs; SIGHUP reads it "
       "again",
       false, OneOf(proxy(&ProxyConfig::mode), {"nftables", "iptables", "ipvs"})},
      {"healthzBindAddress", "ADDRESS:PORT",
       "where /healthz and /livez of the service proxy answer (default 0.0.0.0:10256); \"\": "
       "nowhere",
       false, BindAddress(proxy(&ProxyConfig::healthz_bind_address))},
      {"metricsBindAddress", "ADDRESS:PORT",
       "where /metrics and /proxyMode of the service proxy answer (default 127.0.0.1:10249); \"\": "
       "nowhere",
       false, BindAddress(proxy(&ProxyConfig::metrics_bind_address))},
      {"nodePortAddresses", "CIDR", "where node ports answer: ranges, or primary (the default)",
       true, List(proxy(&ProxyConfig::node_port_addresses))},
      {"allowedExternalIPs", "CIDR", "ranges that externalIPs of Services may name (default: none)",
       true, List(proxy(&ProxyConfig::allowed_external_ips))},
      {"announceInterfaces", "NAME",
       "interfaces on which this node answers ARP and NDP for load balancer IPs and external IPs "
       "of Services (default: none)",
       true, List(announce(&AnnounceConfig::interfaces))},
      {"announceAddresses", "CIDR", "ranges that it may answer for; needed with announceInterfaces",
       true, List(announce(&AnnounceConfig::addresses))},
      {"announcePriority", "N",
       "of the nodes of a segment the one with the highest priority answers, 1 to 254 (default "
       "100); without an announceKubeconfig",
       false, Number(announce(&AnnounceConfig::priority), 1, 254)},
      {"announceKubeconfig", "FILE",
       "how an API server is reached where a Lease per announced address decides which node "
       "answers (default: none)",
       false, Text(announce(&AnnounceConfig::kubeconfig))},
      {"kubeconfig", "FILE",
       "how the API server of the cluster is reached that this node joins (default: none, the node "
       "stands alone)",
       false, Text(cluster(&ClusterConfig::kubeconfig))},
      {"bootstrapKubeconfig", "FILE",
       "how the node asks the API server for its first certificate, and again when that has ended; "
       "kubeconfig is written then (default of kubeconfig: <rootDir>/kubeconfig)",
       false, Text(cluster(&ClusterConfig::bootstrap_kubeconfig))},
      {"certDirectory", "DIR",
       "certificates of this node that it asked for, with their keys (default: <rootDir>/pki)",
       false, Text(cluster(&ClusterConfig::certificate_directory))},
      {"rotateCertificates", "BOOL",
       "whether the client certificate in certDirectory is renewed before it ends (default true)",
       false, Bool(cluster(&ClusterConfig::rotate_certificates))},
      {"serverTLSBootstrap", "BOOL",
       "whether the cluster is asked for the certificate of the node's own server (default false)",
       false, Bool(cluster(&ClusterConfig::server_tls_bootstrap))},
      {"registerNode", "BOOL",
       "whether the node makes its Node object itself (default true); with a kubeconfig", false,
       Bool(cluster(&ClusterConfig::register_node))},
      {"keepInputs", "WHAT",
       "what of the objects that pods are made from is kept on the disk, for a start without the "
       "API "
       "server: public (the default: no Secrets) or all",
       false, OneOf(cluster(&ClusterConfig::keep_inputs), {"public", "all"})},
      {"nodeTunnel", "MODE",
       "how pods of nodes are reached that share no link with this one: vxlan (the default) or "
       "none, "
       "where the network behind the nodes knows the pods' ranges",
       false, OneOf(cluster(&ClusterConfig::node_tunnel), {"vxlan", "none"})},
      {"registerWithTaints", "KEY=VALUE:EFFECT", "taints that the Node is made with", true,
       NodeTaints()},
      {"ipvsScheduler", "NAME",
       "mode ipvs: who gets the next connection: rr (the default), wrr, lc, wlc, lblc, lblcr, dh, "
       "sh, mh, sed, nq",
       false, Text(ipvs(&IpvsConfig::scheduler))},
      {"ipvsSchedulerFlags", "FLAG", "mode ipvs: sh-port, sh-fallback, mh-port, mh-fallback", true,
       List(ipvs(&IpvsConfig::scheduler_flags))},
      {"ipvsStrictARP", "BOOL",
       "mode ipvs: true, so that somebody else may announce addresses of Services", false,
       Bool(ipvs(&IpvsConfig::strict_arp))},
      {"ipvsExcludeCIDRs", "CIDR", "mode ipvs: virtual servers in these ranges are left alone",
       true, List(ipvs(&IpvsConfig::exclude_cidrs))},
      {"ipvsTcpTimeout", "TIME", "mode ipvs: of idle TCP connections (default: the kernel's)",
       false, Duration(ipvs(&IpvsConfig::tcp_timeout), 0, kLongestTimeout)},
      {"ipvsTcpFinTimeout", "TIME", "mode ipvs: of TCP connections after a FIN", false,
       Duration(ipvs(&IpvsConfig::tcp_fin_timeout), 0, kLongestTimeout)},
      {"ipvsUdpTimeout", "TIME", "mode ipvs: of idle UDP flows", false,
       Duration(ipvs(&IpvsConfig::udp_timeout), 0, kLongestTimeout)},
      {"clusterDomain", "DOMAIN", "DNS domain of the cluster", false,
       Text(instance(&I::cluster_domain))},
      {"clusterDNS", "ADDRESS", "DNS servers for dnsPolicy ClusterFirst", true,
       List(instance(&I::cluster_dns))},
      {"resolvConf", "FILE", "the node's resolv.conf, for dnsPolicy Default; \"\": none", false,
       PathOrNone(instance(&I::resolv_conf))},
      {"apiGroup", "GROUP", "group that may use the API socket", false,
       Text(instance(&I::api_group))},
      {"address", "ADDRESS", "where the node's HTTPS server listens (default 0.0.0.0: everywhere)",
       false, Text(server(&S::address))},
      {"port", "N", "port of the node's HTTPS server (default 10250); 0: there is none", false,
       Number(server(&S::port), 0, 65535)},
      {"tlsCertFile", "FILE",
       "certificate of the HTTPS server, read again when it changes; with tlsPrivateKeyFile "
       "(default: one that is made here)",
       false, Text(server(&S::tls_cert_file))},
      {"tlsPrivateKeyFile", "FILE", "its key", false, Text(server(&S::tls_private_key_file))},
      {"tlsMinVersion", "NAME", "VersionTLS12 (the default) or VersionTLS13", false,
       OneOf(server(&S::tls_min_version), {"VersionTLS12", "VersionTLS13"})},
      {"tlsCipherSuites", "NAME",
       "cipher suites of TLS 1.2, by Go's names (default: all good ones)", true,
       List(server(&S::tls_cipher_suites))},
      {"clientCAFile", "FILE",
       "authorities of certificates by which clients of the HTTPS server prove who they are", false,
       Text(server(&S::client_ca_file))},
      {"anonymousAuth", "BOOL", "whether its clients may be nobody (default false)", false,
       Bool(server(&S::anonymous))},
      {"authenticationTokenWebhook", "BOOL",
       "whether the API server is asked whose a bearer token is (default true)", false,
       Bool(server(&S::token_webhook))},
      {"authenticationTokenWebhookCacheTTL", "TIME", "how long its answer holds (default 2m)",
       false, Duration(server(&S::token_cache), 0, kLongestTimeout)},
      {"authorizationMode", "NAME",
       "Webhook (the default): the API server is asked what a client may; AlwaysAllow: everything",
       false, OneOf(server(&S::authorization_mode), {"Webhook", "AlwaysAllow"})},
      {"authorizationWebhookCacheAuthorizedTTL", "TIME", "how long a yes holds (default 5m)", false,
       Duration(server(&S::allowed_cache), 0, kLongestTimeout)},
      {"authorizationWebhookCacheUnauthorizedTTL", "TIME", "how long a no holds (default 30s)",
       false, Duration(server(&S::denied_cache), 0, kLongestTimeout)},
      {"enableDebuggingHandlers", "BOOL",
       "whether logs, programs, ports and files of /var/log can be had over HTTPS (default true)",
       false, Bool(server(&S::debugging_handlers))},
      {"enableSystemLogHandler", "BOOL", "whether files of /var/log can be (default true)", false,
       Bool(server(&S::system_log_handler))},
      {"nodeHealthzBindAddress", "ADDRESS:PORT",
       "where /healthz of the node answers without TLS (default 127.0.0.1:10248); \"\": nowhere",
       false, BindAddress(server(&S::healthz_bind_address))},
      {"seccompDir", "DIR", "seccomp profiles of type Localhost (default: <rootDir>/seccomp)",
       false, Text(At(&A::seccomp_dir))},
      {"containerLogMaxSize", "SIZE", "a log file is rotated at this size (default 10Mi)", false,
       Size(container_log(&ContainerLogConfig::max_size_bytes))},
      {"containerLogMaxFiles", "N", "log files kept per container, at least 2 (default 5)", false,
       Number(container_log(&ContainerLogConfig::max_files), 2, 1000)},
      {"maxContainerRestartPeriod", "TIME", "longest crash back-off, 1s to 300s (default 300s)",
       false, Duration(At(&A::max_back_off), 1, 300)},
      {"maxPods", "N", "pods that this node takes (default 110)", false,
       Number(node(&NodeConfig::max_pods), 0, kMostPods)},
      {"allowedUnsafeSysctls", "NAME",
       "sysctls that pods may set beside the safe ones; kernel.msg* is all that begin so (default: "
       "none)",
       true, UnsafeSysctls()},
      {"runtimeHandlers", "NAME",
       "handlers of RuntimeClasses that mean this node's runtime (default: holdfast, runc)", true,
       RuntimeHandlers()},
      {"nodeIP", "ADDRESS",
       "address that the node is known by, and a second one of the other family (default: that of "
       "the "
       "default route)",
       true, List(node(&NodeConfig::ips))},
      {"nodeLabels", "KEY=VALUE",
       "labels of this node, for nodeSelector and node affinity; topology.kubernetes.io/zone is "
       "its "
       "zone",
       true, NodeLabels(), true},
      {"podPidsLimit", "N",
       "processes and threads that one pod may have (default 1024); 0 or -1: as many as all pods "
       "together",
       false, Number(node(&NodeConfig::pod_pids_limit), -1, kMostPids)},
      {"singleProcessOOMKill", "BOOL",
       "whether the kernel kills only one process of a container that has used up its memory, not "
       "all of them (default false; with cgroup v1 it never kills more)",
       false, Bool(node(&NodeConfig::single_process_oom_kill))},
      {"failSwapOn", "BOOL",
       "whether the agent refuses to start on a node that has swap (default false)", false,
       Bool(node(&NodeConfig::fail_swap_on))},
      {"swapBehavior", "NAME",
       "NoSwap (the default) or LimitedSwap, with cgroup v2: containers of Burstable pods that are "
       "not critical may have a part of the node's swap, as large as their request's part of its "
       "memory",
       false, OneOf(node(&NodeConfig::swap_behavior), {"NoSwap", "LimitedSwap"})},
      {"memoryQos", "BOOL",
       "with cgroup v2, whether a container that comes near its memory limit is slowed down "
       "(memory.high; default false)",
       false, Bool(node(&NodeConfig::memory_qos))},
      {"memoryThrottlingFactor", "SHARE",
       "of memoryQos: from where on, between request and limit (default 0.9)", false,
       Share(node(&NodeConfig::memory_throttling_factor))},
      {"memoryReservationPolicy", "NAME",
       "of memoryQos: None (the default) or TieredReservation: what pods request is taken last "
       "from Burstable ones and never from Guaranteed ones",
       false, OneOf(node(&NodeConfig::memory_reservation), {"None", "TieredReservation"})},
      {"systemReserved", "NAME=AMOUNT",
       "cpu, memory and pid of the node that are the system's, not for pods (default: a tenth of "
       "the pids, a twentieth of the memory)",
       true, Amounts(node(&NodeConfig::system_reserved)), true},
      {"kubeReserved", "NAME=AMOUNT", "the same for the node's agents", true,
       Amounts(node(&NodeConfig::kube_reserved)), true},
      {"enforceNodeAllocatable", "NAME",
       "pods (the default): all pods together are limited to what is not reserved; or none", true,
       Enforced()},
      {"evictionHard", "NAME=AMOUNT",
       "when the node is short of something, a share or a number: memory.available (default "
       "100Mi), nodefs.available (10%), nodefs.inodesFree (5%), imagefs.available (15%), "
       "imagefs.inodesFree (5%), pid.available (never); images leave free what imagefs says",
       true, Amounts(eviction(&EvictionConfig::hard)), true},
      {"evictionSoft", "NAME=AMOUNT",
       "the same, for pods that have time to end; each needs an evictionSoftGracePeriod", true,
       Amounts(eviction(&EvictionConfig::soft)), true},
      {"evictionSoftGracePeriod", "NAME=TIME",
       "for how long a soft one has to last until pods go, such as memory.available=1m30s", true,
       Durations(eviction(&EvictionConfig::soft_grace)), true},
      {"evictionMinimumReclaim", "NAME=AMOUNT",
       "how far above its threshold something has to come until the node is no longer short of it",
       true, Amounts(eviction(&EvictionConfig::minimum_reclaim)), true},
      {"evictionMaxPodGracePeriod", "TIME",
       "the most that a pod gets to end for a soft one (default 0s)", false,
       Duration(eviction(&EvictionConfig::max_pod_grace), 0, kLongestTimeout)},
      {"evictionPressureTransitionPeriod", "TIME",
       "for how long the node's conditions outlast what they tell of (default 5m)", false,
       Duration(eviction(&EvictionConfig::pressure_transition), 0, kLongestTimeout)},
      {"registryConfigPath", "DIR",
       "hosts.toml per registry, as containerd has it: mirrors, certificates, plain HTTP (default "
       "/etc/containerd/certs.d); read for every pull",
       false, Path(image_pull(&ImagePullConfig::registry_config_path))},
      {"shortNamesPath", "FILE",
       "a registries.conf, as podman has it, that says what short names stand for in \"holdctl "
       "image\"; for pods they are always docker.io's (default: none, docker.io's for both)",
       false, Text(image_pull(&ImagePullConfig::short_names_path))},
      {"signaturePolicyPath", "FILE",
       "a policy.json, as podman and CRI-O have it, that says which images may be pulled and "
       "imported; one that wants signatures checked is refused (default: none, all may)",
       false, Text(image_pull(&ImagePullConfig::signature_policy_path))},
      {"serializeImagePulls", "BOOL",
       "whether images are pulled one after the other (default true)", false,
       Bool(image_pull(&ImagePullConfig::serialize))},
      {"maxParallelImagePulls", "N",
       "pulls at a time with serializeImagePulls false (default 0: as many as pods want)", false,
       Number(image_pull(&ImagePullConfig::max_parallel), 0, 1000)},
      {"registryPullQPS", "N", "pulls that begin per second (default 5); 0: no limit", false,
       Number(image_pull(&ImagePullConfig::per_second), 0, 1'000'000)},
      {"registryBurst", "N", "of them at once (default 10)", false,
       Number(image_pull(&ImagePullConfig::burst), 1, 1'000'000)},
      {"imagePullCredentialsVerificationPolicy", "NAME",
       "of which images that are here a pod has to show that it may have them: "
       "NeverVerifyPreloadedImages (the default: those that were pulled for pods), NeverVerify, "
       "NeverVerifyAllowlistedImages or AlwaysVerify",
       false,
       OneOf(image_pull(&ImagePullConfig::verification),
             {"NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages",
              "AlwaysVerify"})},
      {"preloadedImagesVerificationAllowlist", "IMAGE",
       "with NeverVerifyAllowlistedImages: names without tag, or all below registry/path/*", true,
       List(image_pull(&ImagePullConfig::verification_allowlist))},
      {"imageCredentialProviderConfig", "PATH",
       "a kubelet's CredentialProviderConfig, or a directory of them: programs that make logins "
       "for registries (default: none)",
       false, Text(image_pull(&ImagePullConfig::provider_config))},
      {"imageCredentialProviderBinDir", "DIR", "where these programs are", false,
       Text(image_pull(&ImagePullConfig::provider_programs))},
      {"imageDir", "DIR",
       "image archives in it are imported and pinned: at start, and when one appears (default: "
       "none)",
       false, Text(image_pull(&ImagePullConfig::archive_directory))},
      {"imageGCHighThresholdPercent", "PERCENT",
       "images that nothing needs are removed when so much of their file system is in use (default "
       "85); 100: never",
       false, Number(image_gc(&ImageGcConfig::high_percent), 0, 100)},
      {"imageGCLowThresholdPercent", "PERCENT",
       "until no more than so much is in use (default 80); below imageGCHighThresholdPercent",
       false, Number(image_gc(&ImageGcConfig::low_percent), 0, 100)},
      {"imageMinimumGCAge", "TIME", "an image stays at least so long (default 2m)", false,
       Duration(image_gc(&ImageGcConfig::minimum_age), 0, kLongestAge)},
      {"imageMaximumGCAge", "TIME",
       "an image that nothing needed for longer is removed (default 0s: it is not); more than "
       "imageMinimumGCAge",
       false, Duration(image_gc(&ImageGcConfig::maximum_age), 0, kLongestAge)},
      {"workers", "N", "pods worked on at the same time (default 8)", false,
       Number(At(&A::workers), 1, 256)},
      {"sandboxPoolSize", "N",
       "sandboxes that lie ready for pods to come, made while nothing starts (default 4); 0: none",
       false, Number(At(&A::sandbox_pool_size), 0, kMostReady)},
      {"keeperBinary", "FILE",
       "holdfast-keeper, started when it does not answer; \"\" where systemd does", false,
       Text(programs(&ProgramsConfig::keeper))},
      {"initBinary", "FILE", "holdfast-init, process 1 of pods with a shared process namespace",
       false, Text(programs(&ProgramsConfig::init))},
      {"unpackBinary", "FILE", "holdfast-unpack", false, Text(programs(&ProgramsConfig::unpack))},
      {"fetchBinary", "FILE", "holdfast-fetch, which speaks to registries", false,
       Text(programs(&ProgramsConfig::fetch))},
      {"logLevel", "LEVEL", "trace, debug, info, warn or error (default info)", false,
       OneOf(At(&A::log_level), {"trace", "debug", "info", "warn", "error"})},
  };
  return fields;
}

}  // namespace holdfast::agent::config
