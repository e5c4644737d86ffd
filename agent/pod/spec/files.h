// SPDX-License-Identifier: Apache-2.0
// Content of the files that the node manages inside a pod: hostname, /etc/hosts, /etc/resolv.conf.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/pod/spec/node_environment.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// At most 63 characters, never ending in '-' or '.'. With setHostnameAsFQDN the full name.
std::string PodHostname(const corev1::Pod& pod, const NodeEnvironment& node);

std::string HostsFile(const corev1::Pod& pod, const NodeEnvironment& node,
                      const std::vector<std::string>& pod_ips);

// kInvalidArgument: with setHostnameAsFQDN the full name has more than the 64 bytes that a kernel takes.
Result<void> CheckHostname(const corev1::Pod& pod, const NodeEnvironment& node);

struct ResolvConf {
  struct Warning {
    std::string reason;
    std::string message;
  };

  std::string text;
  // What it says.
  std::vector<std::string> servers;
  std::vector<std::string> searches;
  std::vector<std::string> options;
  // Events: something had to be left out (DNSConfigForming), or clusterDNS is missing (MissingClusterDNS).
  std::vector<Warning> warnings;
};
ResolvConf ResolvConfFile(const corev1::Pod& pod, const NodeEnvironment& node);

// What pods cannot use of the node's own file (event CheckLimitsForResolvConf of the node); "": nothing.
std::string ResolvConfFault(const std::string& path, const std::string& text,
                            const std::string& cluster_domain);

}  // namespace holdfast::agent
