// SPDX-License-Identifier: Apache-2.0
// What IPVS holds, as values: virtual servers and their real servers, wanted ones and those that
// were seen, and changes of them. Pure.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/model/proxy_table.h"

namespace holdfast::netproxy::ipvs {

// What Services can speak: TCP, UDP, SCTP.
inline constexpr std::array<uint8_t, 3> kProtocols = {6, 17, 132};

// A virtual server is found by address, protocol and port, or by the mark that our rules gave the
// packet; then the other three are zero.
struct VirtualKey {
  bool v6 = false;
  uint32_t mark = 0;
  uint8_t protocol = 0;
  IpAddress address;
  uint16_t port = 0;
  auto operator<=>(const VirtualKey&) const = default;
};

// IP_VS_SVC_F_SCHED3, which no scheduler knows: the virtual server is ours.
inline constexpr uint32_t kOwnFlag = 0x20;

struct VirtualConfig {
  std::string scheduler;
  uint32_t flags = 0;    // IP_VS_SVC_F_*, without those that the kernel sets
  uint32_t timeout = 0;  // seconds of persistence
  bool operator==(const VirtualConfig&) const = default;
};

struct VirtualServer {
  VirtualConfig config;
  bool graceful = false;                   // real servers leave when their connections have ended
  std::vector<model::Endpoint> endpoints;  // sorted
  // Sorted; of those that do not leave gracefully: these still do.
  std::vector<model::Endpoint> draining;
  bool operator==(const VirtualServer&) const = default;
};

// As the kernel has them.
struct RealServer {
  uint32_t weight = 1;
  uint32_t connections = 0;  // active and inactive
};
struct ObservedServer {
  VirtualConfig config;
  std::map<model::Endpoint, RealServer> reals;
};
using Observed = std::map<VirtualKey, ObservedServer>;

struct Operation {
  enum class Kind : uint8_t {
    kNewVirtual,
    kSetVirtual,
    kDeleteVirtual,
    kNewReal,
    kSetReal,
    kDeleteReal,
  };
  Kind kind = Kind::kNewVirtual;
  VirtualKey key;
  VirtualConfig config;  // of kNewVirtual and kSetVirtual
  model::Endpoint real;  // of k…Real
  uint32_t weight = 1;
  bool operator==(const Operation&) const = default;
};

// In ipvsadm's language: "-a -t 10.96.0.10:80 -r 10.88.0.2:8080 -m -w 1".
std::string ToString(const VirtualKey& key);
std::string ToString(const VirtualConfig& config);  // begins with a blank
std::string ToString(const Operation& operation);

}  // namespace holdfast::netproxy::ipvs
