// SPDX-License-Identifier: Apache-2.0
// What a credential provider is asked, and what it answers: CredentialProviderRequest and
// CredentialProviderResponse. Pure; thread-safe. The answer is untrusted, and nothing of it is in
// an error. Source: credentialprovider.kubelet.k8s.io.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/images/keyring.h"
#include "agent/images/provider_config.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct ProviderAnswer {
  enum class Holds : uint8_t { kImage, kRegistry, kGlobal };
  Holds holds = Holds::kImage;                    // for which images it may be kept
  std::optional<std::chrono::nanoseconds> cache;  // absent: as the provider's configuration says
  Keyring keyring;
};

// As whom a program is asked; empty for one that is not told.
struct ProviderIdentity {
  std::string token;
  std::map<std::string, std::string> annotations;
};

// `image` without tag and digest: "registry.example/team/app".
std::string ProviderRequest(const CredentialProvider& provider, const std::string& image,
                            const ProviderIdentity& identity = {});
Result<ProviderAnswer> ParseProviderAnswer(const CredentialProvider& provider,
                                           const std::string& output);

}  // namespace holdfast::agent
