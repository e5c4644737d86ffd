// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/configz.h"

#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>

#include "agent/proxy/service_driver.h"
#include "agent/source/manifest_directory.h"
#include "holdfast/base/strings.h"
#include "holdfast/model/service_table.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr char kOff[] = "0s";  // of a timeout: as the kernel has it

std::string Seconds(std::chrono::milliseconds time) {
  return StrCat(std::chrono::duration_cast<std::chrono::seconds>(time).count(), "s");
}

// What the modes nftables and iptables have in common. Changes are not collected for a time, but
// while the one before is written.
Json RulesPart() {
  const model::ServiceSettings settings;
  return {{"masqueradeBit", std::countr_zero(settings.masquerade_mark)},
          {"masqueradeAll", false},
          {"syncPeriod", Seconds(ServiceDriverOptions{}.repair_every)},
          {"minSyncPeriod", kOff}};
}

Json IptablesPart() {
  Json part = RulesPart();
  part["localhostNodePorts"] = model::ServiceSettings{}.localhost_node_ports;
  return part;
}

Json IpvsPart(const IpvsConfig& config) {
  return {{"syncPeriod", Seconds(ServiceDriverOptions{}.repair_every)},
          {"minSyncPeriod", kOff},
          {"scheduler", config.scheduler},
          {"excludeCIDRs", config.exclude_cidrs},
          {"strictARP", config.strict_arp},
          {"tcpTimeout", Seconds(config.tcp_timeout)},
          {"tcpFinTimeout", Seconds(config.tcp_fin_timeout)},
          {"udpTimeout", Seconds(config.udp_timeout)}};
}

// Services come from no API server; nothing is set in the connection table.
Json FixedPart() {
  const Json buffer = {{"infoBufferSize", "0"}};
  return {{"clientConnection",
           {{"kubeconfig", ""},
            {"acceptContentTypes", ""},
            {"contentType", ""},
            {"qps", 0},
            {"burst", 0}}},
          {"conntrack",
           {{"maxPerCore", 0},
            {"min", 0},
            {"tcpEstablishedTimeout", kOff},
            {"tcpCloseWaitTimeout", kOff},
            {"tcpBeLiberal", false},
            {"udpTimeout", kOff},
            {"udpStreamTimeout", kOff}}},
          {"winkernel",
           {{"networkName", ""},
            {"sourceVip", ""},
            {"enableDSR", false},
            {"rootHnsEndpointName", ""},
            {"forwardHealthCheckVip", false}}},
          {"logging",
           {{"format", "text"},
            {"flushFrequency", kOff},
            {"verbosity", 0},
            {"options", {{"json", buffer}, {"text", buffer}}}}},
          {"detectLocal", {{"bridgeInterface", ""}, {"interfaceNamePrefix", ""}}},
          {"bindAddressHardFail", false},
          {"enableProfiling", false},
          {"showHiddenMetricsForVersion", ""},
          {"portRange", ""},
          {"oomScoreAdj", nullptr},
          {"configSyncPeriod", Seconds(ManifestDirectoryOptions{}.resync)}};
}

Json KubeProxyPart(const AgentConfig& config) {
  Json part = FixedPart();
  part.update({{"apiVersion", "kubeproxy.config.k8s.io/v1alpha1"},
               {"kind", "KubeProxyConfiguration"},
               {"hostnameOverride", config.instance.node_name},
               {"bindAddress", "0.0.0.0"},
               {"healthzBindAddress", config.proxy.healthz_bind_address},
               {"metricsBindAddress", config.proxy.metrics_bind_address},
               {"mode", config.proxy.mode},
               {"iptables", IptablesPart()},
               {"ipvs", IpvsPart(config.proxy.ipvs)},
               {"nftables", RulesPart()},
               {"detectLocalMode", "ClusterCIDR"},
               {"clusterCIDR", Join(config.instance.pod_cidrs, ",")},
               {"nodePortAddresses", config.proxy.node_port_addresses}});
  return part;
}

// A flag may hold any bytes.
std::string ToText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string ConfigzText(AgentConfig config, const std::string& mode) {
  config.proxy.mode = mode;
  return StrCat("{\"holdfast.dev\":", ConfigJson(config),
                ",\"kubeproxy.config.k8s.io\":", ToText(KubeProxyPart(config)), "}");
}

}  // namespace holdfast::agent
