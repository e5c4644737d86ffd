// SPDX-License-Identifier: Apache-2.0
// PodNetwork: what a pod's network is made by: addresses, links, routes, hostPorts. The built-in one is
// netproxy/podnet, that of CNI plugins agent/cni.
// Thread-safe. Idempotent: a second Setup of the same pod gives the same addresses.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"

namespace holdfast {

struct HostPort {
  std::string host_ip;  // "" is every address of the node
  uint16_t host_port = 0;
  uint16_t container_port = 0;
  enum class Protocol : uint8_t { kTcp, kUdp, kSctp };
  Protocol protocol = Protocol::kTcp;
  bool operator==(const HostPort&) const = default;
};

constexpr const char* ProtocolName(HostPort::Protocol protocol) {
  switch (protocol) {
    case HostPort::Protocol::kTcp:
      return "tcp";
    case HostPort::Protocol::kUdp:
      return "udp";
    case HostPort::Protocol::kSctp:
      return "sctp";
  }
  return "";
}

// Bits per second; 0: as much as there is.
struct PodBandwidth {
  uint64_t ingress = 0;
  uint64_t egress = 0;
  bool operator==(const PodBandwidth&) const = default;
};

// What the pod's resolv.conf says.
struct PodDns {
  std::vector<std::string> servers;
  std::vector<std::string> searches;
  std::vector<std::string> options;
  bool operator==(const PodDns&) const = default;
};

struct PodNetworkRequest {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  int network_namespace = -1;  // borrowed
  std::vector<HostPort> host_ports;
  PodBandwidth bandwidth = {};
  // For plugins that ask for it.
  PodDns dns = {};
  std::map<std::string, std::string> annotations = {};
  model::QosClass qos = model::QosClass::kBestEffort;  // with the uid: which cgroup is the pod's
};

class PodNetwork {
 public:
  virtual ~PodNetwork() = default;

  // Adds the node-wide parts (table, masquerade, sysctls); at start and at every resync.
  virtual Result<void> Ensure() = 0;
  // Allocates (or finds) the pod's addresses and wires its namespace. Returns the addresses, the
  // primary family first. kConflict when a hostPort is taken, kResourceExhausted when the range is,
  // kUnavailable while no range is known.
  virtual Result<std::vector<std::string>> Setup(const PodNetworkRequest& request) = 0;
  // Why no pod can be given a network now; "" when it can. In the words that follow "message:" where
  // a kubelet tells it.
  virtual std::string NotReadyBecause() = 0;
  // What of the request this network does not do, each in words; for events.
  virtual std::vector<std::string> LeftOut(const PodNetworkRequest& request) = 0;
  // Takes hostPorts and rules away, frees the addresses once the host side was seen gone (the
  // namespace itself is dropped by the runtime).
  virtual Result<void> Teardown(const PodUid& uid) = 0;
  // Frees what pods that were taken down had, once their links are gone. Costs what it frees, however many pods stand.
  virtual Result<void> Release() = 0;
  // Addresses recorded for the pod, empty when there are none.
  virtual std::vector<std::string> Addresses(const PodUid& uid) = 0;
  // Whether Teardown() has something to do: what was begun for the pod, or is being taken away.
  virtual bool Holds(const PodUid& uid) = 0;
  // Ours on this machine, but of no pod in `live`. `repair` removes it.
  virtual Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) = 0;
  // What could not be tuned since the last call, each said once; for the log.
  virtual std::vector<std::string> TakeWarnings() = 0;
};

}  // namespace holdfast
