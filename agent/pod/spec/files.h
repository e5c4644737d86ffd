// SPDX-License-Identifier: Apache-2.0
// Content of the files that the node manages inside a pod: hostname, /etc/hosts, /etc/resolv.conf.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/pod/spec/node_environment.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

namespace corev1 = ::k8s::io::api::core::v1;

// At most 63 characters, never ending in '-' or '.'. With setHostnameAsFQDN the full name.
std::string PodHostname(const corev1::Pod& pod, const NodeEnvironment& node);

std::string HostsFile(const corev1::Pod& pod, const NodeEnvironment& node,
                      const std::vector<std::string>& pod_ips);

struct ResolvConf {
  std::string text;
  // Something had to be left out (event DNSConfigForming), or clusterDNS is missing
  // (MissingClusterDNS). Empty when all is well.
  std::string warning_reason;
  std::string warning_message;
};
ResolvConf ResolvConfFile(const corev1::Pod& pod, const NodeEnvironment& node);

}  // namespace holdfast::agent
