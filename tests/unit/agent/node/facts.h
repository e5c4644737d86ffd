// SPDX-License-Identifier: Apache-2.0
// A node to test with.
#pragma once

#include "agent/node/node_description.h"

namespace holdfast::agent::test {

inline NodeDescription Facts() {
  NodeDescription facts;
  facts.name = "n1";
  facts.version = "0.1.0+git";
  facts.labels = {{"kubernetes.io/hostname", "n1"},
                  {"kubernetes.io/os", "linux"},
                  {"kubernetes.io/arch", "amd64"},
                  {"disk", "ssd"}};
  facts.own_labels = {"disk"};
  facts.host_ips = {"192.0.2.7", "2001:db8::7"};
  facts.capacity["cpu"] = kube::Amount::FromMilli(2000);
  facts.capacity["memory"] = kube::Amount::FromUnits(2 << 20, kube::Amount::Format::kBinarySi);
  facts.capacity["pods"] = kube::Amount::FromUnits(110);
  facts.allocatable = facts.capacity;
  facts.allocatable["cpu"] = kube::Amount::FromMilli(1500);
  facts.allocatable["memory"] = kube::Amount::FromUnits(1 << 20, kube::Amount::Format::kBinarySi);
  facts.machine = {"m", "s", "b", "6.1.0", "Debian", "amd64", 0};
  facts.images = {{{"r@sha256:1", "r:1"}, 7}};
  facts.port = 10250;
  facts.runtime_handlers = {"runc"};
  return facts;
}

}  // namespace holdfast::agent::test
