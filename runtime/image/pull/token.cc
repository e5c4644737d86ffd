// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/token.h"

#include <algorithm>

#include "holdfast/base/ascii.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"
#include "runtime/json/json_read.h"

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

// NAME of "repository:NAME:ACTIONS"; "" for another scope, or one that asks for more than `push` says.
std::string RepositoryOf(std::string_view scope, bool push) {
  constexpr std::string_view kBegin = "repository:";
  if (!scope.starts_with(kBegin)) return {};
  scope.remove_prefix(kBegin.size());
  const size_t colon = scope.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view actions = scope.substr(colon + 1);
  const bool pushes = actions == "push" || actions == "pull,push" || actions == "push,pull";
  const std::string_view name = scope.substr(0, colon);
  const bool usable =
      (actions == "pull" || (push && pushes)) && name.find_first_of(" ,") == std::string_view::npos;
  return std::string(usable ? name : "");
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

Result<std::string> TokenUrl(const fetch::Challenge& challenge, const TokenScope& scope,
                             const fetch::Address& registry) {
  auto realm = fetch::ParseAddress(challenge.realm);
  if (!realm) return std::move(realm.error()).Wrap("token service");
  const bool same_host = !registry.IsSecure() && realm->host == registry.host;
  if (!realm->IsSecure() && !same_host) {
    return Error(Code::kPermissionDenied,
                 StrCat("token service ", realm->Origin(), " is without TLS, refused"));
  }
  const std::string asked = RepositoryOf(challenge.scope, scope.push);
  const std::string& repository = asked.empty() ? scope.repository : asked;
  const char separator = challenge.realm.find('?') == std::string::npos ? '?' : '&';
  std::string url = challenge.realm + separator;
  if (!challenge.service.empty()) url += StrCat("service=", Escaped(challenge.service), "&");
  url += "scope=" + Escaped(StrCat("repository:", repository, scope.push ? ":pull,push" : ":pull"));
  for (const std::string& source : scope.sources) {
    url += "&scope=" + Escaped(StrCat("repository:", source, ":pull"));
  }
  return url;
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
