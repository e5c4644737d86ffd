// SPDX-License-Identifier: Apache-2.0
// The programs that make logins for registries, as a kubelet's CredentialProviderConfig names them
// (kubelet.config.k8s.io/v1). Pure but for ReadProviderConfig, which reads files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// That the program is told of the pod's service account.
struct ProviderTokens {
  // For whom what it answers holds: who has the same token, or whose pods have the same account.
  enum class Cache : uint8_t { kToken, kServiceAccount };
  std::string audience;
  Cache cache = Cache::kToken;
  bool require_account = true;  // it is not asked for pods without one
  // Annotations of the account; without a required one it is not asked.
  std::vector<std::string> required_keys = {}, optional_keys = {};
};

struct CredentialProvider {
  std::string name;                       // of its file in the directory of programs
  std::string api_version;                // that it is spoken to in
  std::vector<std::string> match_images;  // as a Keyring's keys
  std::chrono::nanoseconds default_cache{0};
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // beside the agent's own
  std::optional<ProviderTokens> tokens;
};

// kInvalidArgument lists every fault, one per line, as "FILE:3:5: providers[0].name: …". What is
// not supported here is a fault, too.
Result<std::vector<CredentialProvider>> ParseProviderConfig(const std::string& text,
                                                            const std::string& file);

// Of a file, or of the *.json, *.yaml and *.yml of a directory in the order of their names; no
// program's name is there twice, and each is in `programs`.
Result<std::vector<CredentialProvider>> ReadProviderConfig(const std::string& path,
                                                           const std::string& programs);

}  // namespace holdfast::agent
