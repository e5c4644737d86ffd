// SPDX-License-Identifier: Apache-2.0
// NodeDescription: what the machine and the configuration say of this node; the Node object is made of it. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/kube/pod_resources.h"
#include "agent/pod/admit/node_offer.h"

namespace holdfast::agent {

struct NodeMachine {
  std::string machine_id, system_uuid, boot_id;
  std::string kernel_version, os_image;
  std::string architecture;  // as Go names it: "amd64"
  int64_t swap_bytes = 0;
};

struct NodeImage {
  std::vector<std::string> names;  // digests, then tags
  int64_t size_bytes = 0;
  bool operator==(const NodeImage&) const = default;
};

struct NodeDescription {
  std::string name;
  std::string version;                        // of the agent: "0.1.0"
  std::map<std::string, std::string> labels;  // of the machine and of the configuration
  std::vector<std::string> own_labels;        // keys of those of the configuration
  std::vector<std::string> host_ips;          // the first is primary
  std::vector<std::string> given_ips;         // of these, by the configuration
  kube::ResourceList capacity;
  kube::ResourceList allocatable;
  NodeMachine machine;
  NodePressure pressure;
  std::vector<NodeImage> images;              // biggest first
  std::vector<std::string> volumes_in_use;    // of storage plugins, by their unique names
  std::vector<std::string> runtime_handlers;  // of RuntimeClasses, beside the default one
  uint16_t port = 0;                          // of the HTTPS server; 0: there is none yet
};

}  // namespace holdfast::agent
