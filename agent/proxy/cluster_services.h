// SPDX-License-Identifier: Apache-2.0
// ClusterServices: Services and EndpointSlices as an API server has them. Two reflectors bring them; they go to the
// driver (service_feed.h), all that came in one turn as one change, and are shown (service_catalog.h).
//
// The driver is started when both lists were complete once: the rules of the former agent stay in place until this one
// knows as much. A list that is read again takes nothing away before it is complete either.
//
// Everything runs on the API thread; it is made before that thread runs and destroyed after it ended, or on it.
// Source: join.md 1.3 ("Services"), control-plane.md 8.1 and 8.2.
#pragma once

#include <functional>
#include <memory>
#include <string>

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

  // Begins to follow both.
  void Follow();
  // Hints and topology count for another zone from now on.
  void SetZone(const std::string& zone);

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
  std::unique_ptr<Services> services_;
  std::unique_ptr<Slices> slices_;
  std::shared_ptr<ClusterServices*> alive_;  // of what was posted
  TicketPtr services_ticket_, slices_ticket_, retry_;
};

}  // namespace holdfast::agent
