// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/capabilities.h"

#include <cstdint>
#include <limits>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cni {
namespace {

// The plugin wants one beside each rate, in bits; containerd's.
constexpr uint64_t kBurst = std::numeric_limits<uint32_t>::max();

Json PortMappings(const std::vector<HostPort>& ports) {
  Json mappings = Json::array();
  for (const HostPort& port : ports) {
    mappings.push_back({{"hostPort", port.host_port},
                        {"containerPort", port.container_port},
                        {"protocol", ProtocolName(port.protocol)},
                        {"hostIP", port.host_ip}});
  }
  return mappings;
}

Json BandwidthOf(const PodBandwidth& bandwidth) {
  Json limits = Json::object();
  if (bandwidth.ingress != 0) {
    limits["ingressRate"] = bandwidth.ingress;
    limits["ingressBurst"] = kBurst;
  }
  if (bandwidth.egress != 0) {
    limits["egressRate"] = bandwidth.egress;
    limits["egressBurst"] = kBurst;
  }
  return limits;
}

}  // namespace

std::string ArgsOf(const PodNetworkRequest& request, const std::string& container_id) {
  return StrCat("IgnoreUnknown=1;K8S_POD_NAMESPACE=", request.pod_namespace,
                ";K8S_POD_NAME=", request.pod_name, ";K8S_POD_INFRA_CONTAINER_ID=", container_id,
                ";K8S_POD_UID=", request.uid.value);
}

Json CapabilitiesOf(const PodNetworkRequest& request, const std::string& cgroup) {
  Json values = Json::object();
  if (!request.host_ports.empty()) values["portMappings"] = PortMappings(request.host_ports);
  if (request.bandwidth != PodBandwidth()) values["bandwidth"] = BandwidthOf(request.bandwidth);
  if (request.dns != PodDns()) {
    values["dns"] = {{"servers", request.dns.servers},
                     {"searches", request.dns.searches},
                     {"options", request.dns.options}};
  }
  if (!request.annotations.empty()) {
    values["io.kubernetes.cri.pod-annotations"] = request.annotations;
  }
  if (!cgroup.empty()) values["cgroupPath"] = cgroup;
  return values;
}

}  // namespace holdfast::agent::cni
