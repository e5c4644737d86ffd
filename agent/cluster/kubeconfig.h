// SPDX-License-Identifier: Apache-2.0
// KubeConfig: how an API server is reached and how this node shows who it is, as a kubelet's
// kubeconfig file says it. Only what current-context names is read. Whatever cannot be obeyed
// (commands that make credentials, proxies, servers that are not verified) is an error, never
// ignored. Value type; single-thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// A certificate or a key: its text, or the file that holds it; neither when none was given.
struct Pem {
  std::string text;
  std::string file;

  bool empty() const { return text.empty() && file.empty(); }
  // A file is read at each call, so that a renewed one counts.
  Result<std::string> Read() const;
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

  // Of the moment; "" when there is none. The file comes first, as for a kubelet.
  Result<std::string> BearerToken() const;
};

// kInvalidArgument is "FILE:3:5: clusters[0].cluster.server: is missing". Relative paths are
// relative to the file's folder.
Result<KubeConfig> ReadKubeConfig(const std::string& file);
Result<KubeConfig> ParseKubeConfig(std::string_view text, const std::string& file);

}  // namespace holdfast::agent
