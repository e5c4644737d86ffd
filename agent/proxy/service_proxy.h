// SPDX-License-Identifier: Apache-2.0
// ServiceProxy: everything that Services need on a node, put together from the configuration:
// rules in the kernel, the Services of the manifest directory, the health checks' answers.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/proxy/address_watch.h"
#include "agent/proxy/announcements.h"
#include "agent/proxy/cluster_services.h"
#include "agent/proxy/local_services.h"
#include "agent/proxy/proxy_answers.h"
#include "agent/proxy/service_catalog.h"
#include "agent/proxy/service_driver.h"
#include "agent/proxy/service_health.h"
#include "agent/proxy/service_rules.h"
#include "agent/proxy/service_view.h"
#include "agent/proxy/shown_services.h"
#include "agent/source/pod_source.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Where Services come from: the API server, or the manifest directory and the node's pods.
struct ServiceSources {
  PodSource& manifests;
  PodView& pods;
  Api* api = nullptr;  // null when the node stands alone
};

class ServiceProxy {
 public:
  // From a thread of ours; must not call back.
  using Announced = std::function<void(const corev1::Service&, const AddressHeld&)>;

  // In the network namespace of the calling thread; everything is borrowed but the callbacks.
  static Result<std::unique_ptr<ServiceProxy>> Start(const AgentConfig& config,
                                                     ServiceSources sources, const Clock& clock,
                                                     ServiceCallbacks callbacks,
                                                     Announced announced);
  ~ServiceProxy();

  ServiceView& services() { return *shown_; }
  // The source has a newer snapshot. Does not block.
  void SourceChanged() {
    if (local_) local_->SourceChanged();
  }
  // Null unless the node stands alone.
  LocalServices* local() { return local_.get(); }
  // Null when the node stands alone.
  ClusterServices* cluster() { return cluster_.get(); }
  // Changes to `mode`; connections that are there go on. A mode that this node cannot have is
  // logged, and the one before goes on.
  void SetMode(const std::string& mode);

  // Takes the rules of every mode that this node's agents had away.
  static Result<void> RemoveRules(const model::Instance& instance, const ProxyConfig& config);
  // The same for a kube-proxy, whose chains the iptables mode shares. What was removed, for people.
  static Result<std::vector<std::string>> RemoveKubeProxyRules(const model::Instance& instance,
                                                               const IpvsConfig& config);

 private:
  explicit ServiceProxy(const AgentConfig& config) : config_(config) {}
  Result<void> StartAnnouncements(const Clock& clock,
                                  const std::function<void(const std::string& line)>& log);
  void StartDriver(const netproxy::TableOptions& table, std::shared_ptr<ProxyMetrics> metrics,
                   const Clock& clock, const ServiceCallbacks& callbacks);
  Result<void> StartSource(const ServiceRanges& ranges, ServiceSources sources, const Clock& clock,
                           ServiceCallbacks callbacks);
  void TellAnnounced(Announced announced);
  void TakeTable(const netproxy::TableOptions& table);
  ProxyAnswers Answers(std::shared_ptr<ProxyMetrics> metrics, const Clock& clock,
                       const model::ServiceSettings& settings) const;
  // What the driver drives.
  ServiceBackEnd& back_end();

  const AgentConfig config_;
  std::function<void(const std::string& line)> log_;
  std::unique_ptr<ServiceRules> rules_;
  std::unique_ptr<Announcements> announcements_;  // none where nothing is announced
  ServiceCatalog catalog_;
  std::unique_ptr<ServiceDriver> driver_;
  std::unique_ptr<ShownServices> shown_;
  std::unique_ptr<LocalServices> local_;  // one of these two
  std::unique_ptr<ClusterServices> cluster_;
  std::unique_ptr<ServiceHealth> health_;
  std::unique_ptr<AddressWatch> addresses_;  // its thread calls the two before it
};

}  // namespace holdfast::agent
