// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/token.h"

#include <algorithm>

#include "holdfast/base/ascii.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"
#include "runtime/image/store/json_read.h"

namespace holdfast::runtime {
namespace {

std::string Escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (IsAlphanumeric(c) || std::string_view("-._~/:,").find(c) != std::string_view::npos) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// "repository:NAME:pull".
bool AsksToPullOnly(std::string_view scope) {
  constexpr std::string_view kBegin = "repository:";
  constexpr std::string_view kEnd = ":pull";
  if (!scope.starts_with(kBegin) || !scope.ends_with(kEnd)) return false;
  if (scope.size() <= kBegin.size() + kEnd.size()) return false;
  return std::ranges::none_of(scope, [](char c) { return c == ' ' || c == ','; });
}

bool IsHeaderValue(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

std::optional<fetch::Challenge> ChooseChallenge(const std::vector<fetch::Challenge>& challenges,
                                                bool has_login) {
  for (const fetch::Challenge& challenge : challenges) {
    if (challenge.scheme == "bearer" && !challenge.realm.empty()) return challenge;
  }
  for (const fetch::Challenge& challenge : challenges) {
    if (challenge.scheme == "basic" && has_login) return challenge;
  }
  return std::nullopt;
}

std::string BasicAuthorization(const RegistryLogin& login) {
  return "Basic " + EncodeBase64(StrCat(login.username, ":", login.password));
}

Result<std::string> TokenUrl(const fetch::Challenge& challenge, const std::string& repository,
                             const fetch::Address& registry) {
  auto realm = fetch::ParseAddress(challenge.realm);
  if (!realm) return std::move(realm.error()).Wrap("token service");
  const bool same_host = !registry.IsSecure() && realm->host == registry.host;
  if (!realm->IsSecure() && !same_host) {
    return Error(Code::kPermissionDenied,
                 StrCat("token service ", realm->Origin(), " is without TLS, refused"));
  }
  const std::string scope = AsksToPullOnly(challenge.scope)
                                ? challenge.scope
                                : StrCat("repository:", repository, ":pull");
  const char separator = challenge.realm.find('?') == std::string::npos ? '?' : '&';
  std::string url = challenge.realm + separator;
  if (!challenge.service.empty()) url += StrCat("service=", Escaped(challenge.service), "&");
  return url + "scope=" + Escaped(scope);
}

Result<std::string> ReadTokenReply(std::string_view text) {
  simdjson::dom::parser parser;
  ASSIGN_OR_RETURN(const json::Object object, json::ParseObject(parser, text, "token service"));
  ASSIGN_OR_RETURN(std::string token, json::String(object, "token"));
  if (token.empty()) {
    ASSIGN_OR_RETURN(token, json::String(object, "access_token"));
  }
  if (!IsHeaderValue(token)) return InvalidArgument("token service: the answer holds no token");
  return "Bearer " + token;
}

}  // namespace holdfast::runtime
