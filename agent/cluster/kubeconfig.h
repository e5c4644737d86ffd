// SPDX-License-Identifier: Apache-2.0
// KubeConfig: how an API server is reached and how this node shows who it is, as a kubelet's
// kubeconfig file says it. Only what current-context names is read. Whatever cannot be obeyed
// (passwords, proxies, servers that are not verified) is an error, never ignored. Value type;
// single-thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// A certificate or a key: its text, or the file that holds it; neither when none was given.
struct Pem {
  std::string text;
  std::string file;

  bool empty() const { return text.empty() && file.empty(); }
  bool operator==(const Pem&) const = default;
  // A file is read at each call, so that a renewed one counts.
  Result<std::string> Read() const;
};

inline constexpr size_t kKubeconfigLimit = 1 << 20;  // bytes of the file
inline constexpr char kExecV1[] = "client.authentication.k8s.io/v1";
inline constexpr char kExecV1Beta1[] = "client.authentication.k8s.io/v1beta1";

// A program that makes credentials. Source: client.authentication.k8s.io.
struct ExecPlugin {
  std::string api_version;  // "client.authentication.k8s.io/v1" or "…/v1beta1"
  std::string command;      // a path, or a name to be looked for in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // beside the agent's own
  bool provide_cluster_info = false;
  std::string install_hint;    // told when it cannot be started
  std::string cluster_config;  // JSON that the cluster's entry has for it; "" for none
};

struct KubeConfig {
  std::string server;  // as it was written: "https://192.0.2.1:6443"
  std::string host;    // a name or an address without brackets
  uint16_t port = 443;
  std::string path;             // goes in front of every request's
  std::string tls_server_name;  // in the server's certificate
  Pem authority;                // who signed that; empty: the system's authorities
  Pem certificate;              // the node's own, with its key, or neither
  Pem key;
  std::string token;  // "" without one
  std::string token_file;
  std::optional<ExecPlugin> exec;  // instead of certificate and token; somebody else runs it

  // Of the moment; "" when there is none. The file comes first, as for a kubelet.
  Result<std::string> BearerToken() const;
};

// kInvalidArgument is "FILE:3:5: clusters[0].cluster.server: is missing". Relative paths are
// relative to the file's folder.
Result<KubeConfig> ReadKubeConfig(const std::string& file);
Result<KubeConfig> ParseKubeConfig(std::string_view text, const std::string& file);

}  // namespace holdfast::agent
