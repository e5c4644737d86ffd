// SPDX-License-Identifier: Apache-2.0
// ClusterServices: Services and EndpointSlices as an API server has them. Two reflectors bring them; they go to the
// driver (service_feed.h), all that came in one turn as one change, and are shown (service_catalog.h).
//
// The driver is started when both lists were complete once: the rules of the former agent stay in place until this one
// knows as much. A list that is read again takes nothing away before it is complete either.
//
// Everything but Variables() runs on the API thread; it is made before that thread runs and destroyed after it ended, or on it.
// Source: join.md 1.3 ("Services"), control-plane.md 8.1 and 8.2.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/cluster/api.h"
#include "agent/cluster/reflector.h"
#include "agent/proxy/service_callbacks.h"
#include "agent/proxy/service_catalog.h"
#include "agent/proxy/service_driver.h"
#include "agent/proxy/service_feed.h"

namespace holdfast::agent {

class ClusterServices {
 public:
  // `api`, `driver` and `catalog` are borrowed.
  ClusterServices(Api& api, ServiceDriver& driver, ServiceCatalog& catalog, NodeIdentity node,
                  ServiceCallbacks callbacks);
  ~ClusterServices();
  ClusterServices(const ClusterServices&) = delete;
  ClusterServices& operator=(const ClusterServices&) = delete;

  // Called once, when Variables() knows of Services. Before Follow().
  void WhenKnown(std::function<void()> told) { known_ = std::move(told); }
  // Begins to follow both.
  void Follow();
  // Hints and topology count for another zone from now on.
  void SetZone(const std::string& zone);

  // What containers of a namespace are told of Services: of all there if `links`, and of the API server. nullopt: they
  // are not known yet. Thread-safe.
  std::optional<std::vector<std::string>> Variables(const std::string& of_namespace,
                                                    bool links) const;

  // What the reflectors call.
  ObjectHandler& services();
  ObjectHandler& slices();

 private:
  class Followed;  // what both kinds have in common
  class Services;
  class Slices;

  void FlushSoon();
  void Flush();

  Api& api_;
  ServiceDriver& driver_;
  ServiceCatalog& catalog_;
  NodeIdentity node_;
  const ServiceCallbacks callbacks_;
  ServiceFeed feed_;
  bool flush_posted_ = false;
  bool started_ = false;  // the driver is
  std::atomic<bool> services_known_ = false;
  std::function<void()> known_;
  std::unique_ptr<Services> services_;
  std::unique_ptr<Slices> slices_;
  std::shared_ptr<ClusterServices*> alive_;  // of what was posted
  TicketPtr services_ticket_, slices_ticket_, retry_;
};

}  // namespace holdfast::agent
