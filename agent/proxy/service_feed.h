// SPDX-License-Identifier: Apache-2.0
// ServiceFeed: completed Services and EndpointSlices in, edits of the driver's table out. Whoever
// knows them feeds one: the manifest directory (local_services.h), or a watch of an API server.
// Single-thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/types_fwd.h"
#include "agent/proxy/convert.h"
#include "agent/proxy/service_driver.h"
#include "holdfast/base/clock.h"
#include "holdfast/model/service.h"

namespace holdfast::agent {

class ServiceFeed {
 public:
  explicit ServiceFeed(NodeIdentity node) : node_(std::move(node)) {}

  // Hints mean another zone from now on; the slices have to be set again.
  void SetNode(NodeIdentity node) { node_ = std::move(node); }
  void SetService(const corev1::Service& service);
  void RemoveService(const model::ServiceName& name);
  void SetSlice(const discoveryv1::EndpointSlice& slice);
  void RemoveSlice(const std::string& slice_namespace, const std::string& name);

  // What happened before the first rules were written says nothing about how fast they are: trigger
  // times count from here on.
  void Began() { began_ = true; }
  // Gives all that came since the last time to the driver, as one change.
  void Flush(ServiceDriver& driver);

 private:
  void NoteTrigger(const discoveryv1::EndpointSlice& slice);

  NodeIdentity node_;
  NodeNumbers numbers_;
  bool began_ = false;
  std::vector<std::function<void(netproxy::ServiceTracker&)>> edits_;
  std::vector<WallTime> triggers_;  // of edits_
  // Of slices, by namespace and name, as they say it.
  std::map<std::pair<std::string, std::string>, std::string> known_triggers_;
};

}  // namespace holdfast::agent
