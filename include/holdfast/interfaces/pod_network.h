// SPDX-License-Identifier: Apache-2.0
// PodNetwork: what netproxy/podnet offers the agent: addresses, links, routes, hostPorts.
// Thread-safe. Idempotent: a second Setup of the same pod gives the same addresses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"

namespace holdfast {

struct HostPort {
  std::string host_ip;  // "" is every address of the node
  uint16_t host_port = 0;
  uint16_t container_port = 0;
  enum class Protocol : uint8_t { kTcp, kUdp, kSctp };
  Protocol protocol = Protocol::kTcp;
  bool operator==(const HostPort&) const = default;
};

struct PodNetworkRequest {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  int network_namespace = -1;  // borrowed
  std::vector<HostPort> host_ports;
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
  // Whether a range is known from which pods can get addresses.
  virtual bool HasRanges() = 0;
  // Takes hostPorts and rules away, frees the addresses once the host side was seen gone (the
  // namespace itself is dropped by the runtime).
  virtual Result<void> Teardown(const PodUid& uid) = 0;
  // Addresses recorded for the pod, empty when there are none.
  virtual std::vector<std::string> Addresses(const PodUid& uid) = 0;
  // Ours on this machine, but of no pod in `live`. `repair` removes it.
  virtual Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) = 0;
  // What could not be tuned since the last call, each said once; for the log.
  virtual std::vector<std::string> TakeWarnings() = 0;
};

}  // namespace holdfast
