// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster_identity.h"

#include <utility>

#include "agent/base/program_orphans.h"
#include "agent/identity/exec_plugin.h"

namespace holdfast::agent {

Result<std::unique_ptr<ClusterIdentity>> ClusterIdentity::Open(ClusterIdentityOptions options) {
  std::unique_ptr<ClusterIdentity> made(new ClusterIdentity());
  ASSIGN_OR_RETURN(made->stop_, sys::Wakeup::Make());
  ClusterApiOptions api;
  api.version = options.version;
  ASSIGN_OR_RETURN(made->api_, ClusterApi::Start(std::move(api)));
  const ClusterConfig& cluster = options.config.cluster;
  NodeCredentialsOptions identity;
  identity.node_name = options.config.instance.node_name;
  identity.kubeconfig = cluster.kubeconfig;
  identity.bootstrap_kubeconfig = cluster.bootstrap_kubeconfig;
  identity.certificate_directory = cluster.certificate_directory;
  identity.rotate = cluster.rotate_certificates;
  identity.serving = cluster.server_tls_bootstrap;
  identity.set_config = [a = made->api_.get()](Result<KubeConfig> config) {
    a->SetConfig(std::move(config));
  };
  const std::string owner = options.config.instance.run_dir + "/exec-plugins";
  identity.run = [m = made.get(), owner, log = options.log](const ExecPlugin& plugin,
                                                            const std::string& info) {
    std::call_once(m->ended_orphans_, [&] {
      if (EndOrphans(owner)) return;
      log("an exec plugin that a former agent started does not end although it was killed");
    });
    return RunExecPlugin(plugin, info, owner, m->stop_);
  };
  identity.log = options.log;
  identity.events = &options.events;
  ASSIGN_OR_RETURN(made->identity_,
                   NodeCredentials::Open(*made->api_, options.clock, std::move(identity)));
  return made;
}

ClusterIdentity::~ClusterIdentity() {
  stop_.Set();
  api_.reset();
}

void ClusterIdentity::PublishTo(NodeCredentials::Publish publish) {
  const std::lock_guard lock(mutex_);
  const bool first = publish_ == nullptr && publish != nullptr;
  publish_ = std::move(publish);
  if (first) {
    identity_->Start([this](const Result<KubeConfig>& credentials) { Publish(credentials); });
  }
}

void ClusterIdentity::Publish(const Result<KubeConfig>& credentials) {
  const std::lock_guard lock(mutex_);
  if (publish_) publish_(credentials);
}

}  // namespace holdfast::agent
