// SPDX-License-Identifier: Apache-2.0
// Token authentication: what is asked of the token service, and what it answers. Pure.
// Source: the distribution project's "token authentication specification".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"
#include "runtime/image/wire/address.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime {

// What a token is to allow, and nothing else.
struct TokenScope {
  std::string repository;
  bool push = false;                      // beside pulling
  std::vector<std::string> sources = {};  // repositories that blobs are taken over from
};

// The challenge that can be met: Bearer before Basic, which needs a login; nullopt for none.
std::optional<fetch::Challenge> ChooseChallenge(const std::vector<fetch::Challenge>& challenges,
                                                bool has_login);

// "Basic …".
std::string BasicAuthorization(const RegistryLogin& login);

// Where a token for `scope` is had. The repository's name is the challenge's where that one asks for
// no more than `scope` does of one repository: a registry may know it by another. kPermissionDenied for a service without TLS, unless the
// registry is spoken to without and is the same host.
Result<std::string> TokenUrl(const fetch::Challenge& challenge, const TokenScope& scope,
                             const fetch::Address& registry);

// "Bearer …" of the service's answer.
Result<std::string> ReadTokenReply(std::string_view json);

}  // namespace holdfast::runtime
