// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/kubeconfig_text.h"

#include <utility>

#include "agent/kube/print.h"
#include "holdfast/base/base64.h"

namespace holdfast::agent {
namespace {

using kube::Node;

// The map `inner` in a list of one, under a name.
Node Named(const char* name, const char* inner, Node map) {
  Node entry = Node::Map();
  entry.Add(inner, std::move(map));
  entry.Add("name", Node::String(name));
  Node list = Node::List();
  list.items.push_back(std::move(entry));
  return list;
}

Node ClusterOf(const KubeConfig& bootstrap) {
  Node cluster = Node::Map();
  const Pem& authority = bootstrap.authority;
  if (!authority.text.empty()) {
    cluster.Add("certificate-authority-data", Node::String(EncodeBase64(authority.text)));
  } else if (!authority.file.empty()) {
    cluster.Add("certificate-authority", Node::String(authority.file));
  }
  cluster.Add("server", Node::String(bootstrap.server));
  if (bootstrap.tls_server_name != bootstrap.host) {
    cluster.Add("tls-server-name", Node::String(bootstrap.tls_server_name));
  }
  return cluster;
}

}  // namespace

std::string KubeConfigText(const KubeConfig& bootstrap, const std::string& certificate_path) {
  Node context = Node::Map();
  context.Add("cluster", Node::String("default-cluster"));
  context.Add("namespace", Node::String("default"));
  context.Add("user", Node::String("default-auth"));
  Node user = Node::Map();
  user.Add("client-certificate", Node::String(certificate_path));
  user.Add("client-key", Node::String(certificate_path));
  Node config = Node::Map();
  config.Add("apiVersion", Node::String("v1"));
  config.Add("clusters", Named("default-cluster", "cluster", ClusterOf(bootstrap)));
  config.Add("contexts", Named("default-context", "context", std::move(context)));
  config.Add("current-context", Node::String("default-context"));
  config.Add("kind", Node::String("Config"));
  config.Add("users", Named("default-auth", "user", std::move(user)));
  return kube::SortedYaml(config);
}

}  // namespace holdfast::agent
