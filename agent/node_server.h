// SPDX-License-Identifier: Apache-2.0
// NodeServer: the node's HTTPS API put together: its certificate, the server, the health port beside it.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/access/audit.h"
#include "agent/api/kubelet/kubelet_api.h"
#include "agent/api/kubelet/streams/kubelet_streams.h"
#include "agent/cluster/api.h"
#include "agent/config/agent_config.h"
#include "agent/http/serving_certificate.h"
#include "agent/http/upgraded_connection.h"
#include "agent/node/node_description.h"
#include "agent/operate/node_operations.h"
#include "agent/proxy/health_server.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Borrowed, except what is a value.
struct NodeServerParts {
  boost::asio::io_context& io;  // where it is looked for changed files
  const AgentConfig& config;
  PodView& pods;
  NodeStats& stats;
  Api* api;  // null: without a cluster
  const Clock& clock;
  std::string version;
  // What was read of the machine last. Any thread; must not block.
  std::function<std::shared_ptr<const NodeDescription>()> description;
  std::function<std::string()> unhealthy_because;                   // any thread
  std::function<std::string()> probe_metrics;                       // any thread
  std::function<std::string()> pod_metrics;                         // any thread
  std::function<std::pair<uint64_t, uint64_t>()> collected_images;  // as KubeletApiParts has it
  NodeOperations& operations;                                       // what exec and the like do
  access::AuditLog& audit;
  std::function<void(const std::string& line)> log;
};

class NodeServer {
 public:
  static Result<std::unique_ptr<NodeServer>> Start(NodeServerParts parts);
  ~NodeServer();
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;

  // Where a certificate goes that somebody else got for it. Any thread; may be called after its end.
  std::function<Result<void>(std::string chain_pem, std::string key_pem)> CertificateTaker() const;

 private:
  explicit NodeServer(NodeServerParts parts);
  Result<void> OpenHealthPort();
  void RefreshLater();

  const NodeServerParts parts_;
  std::shared_ptr<ServingCertificate> certificate_;
  std::unique_ptr<HealthServer> health_;
  streams::KubeletStreams streams_;  // shut down before, gone after what brings them
  std::unique_ptr<api::KubeletApi> api_;
  boost::asio::steady_timer refresh_;
};

}  // namespace holdfast::agent
