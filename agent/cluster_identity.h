// SPDX-License-Identifier: Apache-2.0
// ClusterIdentity: NodeCredentials with what it works by, put together: a connection and a thread of its own, and programs
// that make credentials. Thread-safe but for its end.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "agent/cluster/cluster_api.h"
#include "agent/config/agent_config.h"
#include "agent/events/event_sink.h"
#include "agent/identity/node_credentials.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

struct ClusterIdentityOptions {
  const AgentConfig& config;
  std::string version;
  const Clock& clock;
  EventSink& events;
  std::function<void(const std::string& line)> log;
};

class ClusterIdentity {
 public:
  // kInvalidArgument when the kubeconfig cannot be used and there is nothing to bootstrap with.
  static Result<std::unique_ptr<ClusterIdentity>> Open(ClusterIdentityOptions options);
  ~ClusterIdentity();
  ClusterIdentity(const ClusterIdentity&) = delete;
  ClusterIdentity& operator=(const ClusterIdentity&) = delete;

  NodeCredentials& node() { return *identity_; }
  // Who is given new credentials from now on; {}: nobody any more, and nobody is in the middle of it.
  void PublishTo(NodeCredentials::Publish publish);

 private:
  ClusterIdentity() = default;
  void Publish(const Result<KubeConfig>& credentials);

  sys::Wakeup stop_;  // programs that make credentials
  std::once_flag ended_orphans_;
  std::mutex mutex_;
  NodeCredentials::Publish publish_;  // guarded by mutex_
  std::unique_ptr<NodeCredentials> identity_;
  // When it has ended nobody above is called any more.
  std::unique_ptr<ClusterApi> api_;
};

}  // namespace holdfast::agent
