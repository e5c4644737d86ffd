// SPDX-License-Identifier: Apache-2.0
// Keyring: which logins are for which repository, as a kubelet finds them in docker's configuration:
// "https://index.docker.io/v1/", "registry.example:5000", "*.example.com/team". The longest key
// first, and every one that matches counts. Values; nothing of them is ever printed.
// Source: kubernetes pkg/credentialprovider/keyring.go; feature-map 2.1.5.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

// Whether a key ("*.example.com/team") is for "registry.example.com/team/app": globs per label of the
// host, the same port, the beginning of the path.
bool KeyMatches(std::string_view key, std::string_view repository);

class Keyring {
 public:
  void Add(std::string_view key, RegistryLogin login);
  // Those of `other` after ours, of equal keys too.
  void Add(const Keyring& other);
  // For "docker.io/library/nginx", "registry.example:5000/app".
  std::vector<RegistryLogin> Find(const std::string& repository) const;
  std::vector<RegistryLogin> Logins() const;  // for whatever repository
  bool empty() const { return entries_.empty(); }

 private:
  std::vector<std::pair<std::string, RegistryLogin>> entries_;  // the largest key first
};

// What the node may show to a registry.
struct ProvidedLogins {
  Keyring all;
  // Of these, what was made for the account of one pod: whoever comes later is not let in for them.
  std::vector<RegistryLogin> of_account;
};

// config.json ("auths" …) or, with `legacy`, .dockercfg, which is what stands below "auths". Other
// fields, credential helpers among them, do not count, as for a kubelet. The error holds nothing of
// the text.
Result<Keyring> ParseDockerConfig(std::string_view json, bool legacy);

}  // namespace holdfast::agent
