// SPDX-License-Identifier: Apache-2.0
// NodeCredentials: who this node is to its cluster, from the first start to the last: the credentials of a kubeconfig,
// kept fresh; without any, a certificate asked for with bootstrap credentials; its renewal; a certificate for the
// node's own server. It never gives up: what does not work is shown and tried again.
//
// It works on the thread of an Api of its own, whose credentials it chooses; everybody else's it publishes. What it
// offers is thread-safe. Source: control-plane.md section 2; feature-map.md 1.18.1 to 1.18.4.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster/api.h"
#include "agent/cluster/kubeconfig.h"
#include "agent/events/event_sink.h"
#include "agent/identity/certificate.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

struct NodeCredentialsOptions {
  std::string node_name;
  std::string kubeconfig;            // the path; written after a bootstrap
  std::string bootstrap_kubeconfig;  // "" for none
  std::string certificate_directory;
  bool rotate = true;    // the client certificate of the directory
  bool serving = false;  // ask for a certificate for the node's own server
  // Of the Api that is given: must not block.
  std::function<void(Result<KubeConfig>)> set_config;
  // The output of a program that makes credentials; may block.
  std::function<Result<std::string>(const ExecPlugin&, const std::string& info)> run;
  std::function<void(const std::string& line)> log;
  EventSink* events = nullptr;  // borrowed
};

class NodeCredentials {
 public:
  using Publish = std::function<void(Result<KubeConfig>)>;
  using Deliver = std::function<Result<void>(std::string chain_pem, std::string key_pem)>;

  // `api` and `clock` are borrowed. Reads what is on the disk. kInvalidArgument when it cannot be used and there is
  // nothing to bootstrap with.
  static Result<std::unique_ptr<NodeCredentials>> Open(Api& api, const Clock& clock,
                                                       NodeCredentialsOptions options);
  // On the thread of `api`, or after it ended.
  ~NodeCredentials();
  NodeCredentials(const NodeCredentials&) = delete;
  NodeCredentials& operator=(const NodeCredentials&) = delete;

  // What there is at the start; an error says what it waits for.
  Result<KubeConfig> Current() const;
  // From here on it works; everything that comes after Current() is published, on the thread of `api`.
  void Start(Publish publish);
  // The API server did not take what was published.
  void Refused();

  // Where the certificate for the node's server goes, now and whenever there is another one. On the thread of `api`;
  // one that is not taken is delivered again. {}: nowhere any more, and nobody is in the middle of it.
  void DeliverServing(Deliver deliver);
  // The addresses that it names; asked now and again, must not block.
  void SetAddresses(std::function<std::vector<std::string>()> host_ips);

  // ClientCertificate and ServingCertificate, as far as there is something to be said.
  std::vector<k8s::io::api::core::v1::NodeCondition> Conditions(WallTime now) const;

 private:
  class Impl;
  explicit NodeCredentials(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;  // shared with what the Api's thread runs of it
};

}  // namespace holdfast::agent
