// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/configz.h"

#include <nlohmann/json.hpp>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

using PlainJson = nlohmann::json;

// Settings that have a kubelet's name, meaning and form.
constexpr const char* kSame[] = {"address",
                                 "allowedUnsafeSysctls",
                                 "cgroupDriver",
                                 "clusterDNS",
                                 "clusterDomain",
                                 "containerLogMaxFiles",
                                 "enableDebuggingHandlers",
                                 "enableSystemLogHandler",
                                 "evictionHard",
                                 "failSwapOn",
                                 "imageGCHighThresholdPercent",
                                 "imageGCLowThresholdPercent",
                                 "kubeReserved",
                                 "maxPods",
                                 "memoryReservationPolicy",
                                 "memoryThrottlingFactor",
                                 "podPidsLimit",
                                 "port",
                                 "registerNode",
                                 "singleProcessOOMKill",
                                 "systemReserved",
                                 "tlsCertFile",
                                 "tlsCipherSuites",
                                 "tlsMinVersion",
                                 "tlsPrivateKeyFile",
                                 "containerLogMaxSize",
                                 "enforceNodeAllocatable"};

std::string GoDuration(std::chrono::nanoseconds time) { return kube::FormatDuration(time); }

PlainJson AuthenticationPart(const NodeServerConfig& server) {
  return {{"anonymous", {{"enabled", server.anonymous}}},
          {"webhook",
           {{"enabled", server.token_webhook}, {"cacheTTL", GoDuration(server.token_cache)}}},
          {"x509", {{"clientCAFile", server.client_ca_file}}}};
}

PlainJson AuthorizationPart(const NodeServerConfig& server) {
  return {{"mode", server.authorization_mode},
          {"webhook",
           {{"cacheAuthorizedTTL", GoDuration(server.allowed_cache)},
            {"cacheUnauthorizedTTL", GoDuration(server.denied_cache)}}}};
}

PlainJson KubeletPart(const AgentConfig& config, const PlainJson& own) {
  PlainJson part = {
      {"kind", "KubeletConfiguration"},
      {"apiVersion", "kubelet.config.k8s.io/v1beta1"},
      {"enableServer", true},
      {"staticPodPath", config.instance.manifest_dir},
      {"podLogsDir", config.instance.pod_log_dir},
      {"resolvConf", config.instance.resolv_conf},
      {"cgroupRoot", config.instance.cgroup_parent},
      {"cgroupsPerQOS", true},
      {"cpuCFSQuota", true},
      {"featureGates", {{"MemoryQoS", config.node.memory_qos}}},
      {"memorySwap", {{"swapBehavior", config.node.swap_behavior}}},
      {"nodeStatusUpdateFrequency", "10s"},
      {"nodeStatusReportFrequency", "5m0s"},
      {"nodeLeaseDurationSeconds", 40},
      {"crashLoopBackOff", {{"maxContainerRestartPeriod", GoDuration(config.max_back_off)}}},
      {"imageMinimumGCAge", GoDuration(config.image_gc.minimum_age)},
      {"imageMaximumGCAge", GoDuration(config.image_gc.maximum_age)},
      {"authentication", AuthenticationPart(config.server)},
      {"authorization", AuthorizationPart(config.server)}};
  for (const char* name : kSame) {
    if (own.contains(name)) part[name] = own[name];
  }
  const auto healthz = ParseBindAddress(config.server.healthz_bind_address);
  if (healthz && *healthz) {
    part["healthzBindAddress"] = (*healthz)->ip.ToString();
    part["healthzPort"] = (*healthz)->port;
  }
  return part;
}

}  // namespace

std::string ConfigzJson(const AgentConfig& config) {
  const PlainJson own = PlainJson::parse(ConfigJson(config));
  const PlainJson all = {{"kubeletconfig", KubeletPart(config, own)}, {"holdfast.dev", own}};
  return all.dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

}  // namespace holdfast::agent::api
