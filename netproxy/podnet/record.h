// SPDX-License-Identifier: Apache-2.0
// What the address book keeps on disk. Everything lies in Instance::NetworkDir():
//
//   network/
//   ├── lock             held (flock) by the one agent that uses this directory
//   ├── last             the address given last, one line per range: where the search goes on
//   ├── sysctl           kernel parameters of the node as they were before us, "name value" lines
//   └── pods.journal     a PodRecord by each pod's UID (holdfast/sys/journal.h): written before the
//                        kernel is touched, flagged by Teardown, removed when the pod's interface was seen gone
//
// A killed process leaves the old or the new record; `last` is overwritten in place (a damaged one
// only moves the start of the search). Nothing is fsynced: what the records describe (interfaces,
// routes) does not survive a power cut either.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/pod_network.h"

namespace holdfast::netproxy {

struct PodRecord {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  std::vector<IpAddress> addresses;  // in the order of the ranges
  std::vector<HostPort> host_ports;
  bool releasing = false;  // torn down (by its flag, not in the text); hostPorts are void
  bool operator==(const PodRecord&) const = default;
};

// kInvalidArgument for text that could not be written as one line or as a file name.
Result<void> ValidateRecord(const PodRecord& record);

std::string FormatRecord(const PodRecord& record);
// kInvalidArgument when it is of another version, damaged or cut short.
Result<PodRecord> ParseRecord(const PodUid& uid, std::string_view text);

}  // namespace holdfast::netproxy
