// SPDX-License-Identifier: Apache-2.0
#include "agent/images/provider_exchange.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostLogins = 1000;

Error WrongAnswer(const std::string& what) {
  return InvalidArgument(
      StrCat("error decoding credential provider plugin response from stdout: ", what));
}

// "" also for what is no text.
std::string MemberText(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<ProviderAnswer::Holds> HoldsOf(const Json& answer) {
  const std::string type = MemberText(answer, "cacheKeyType");
  if (type == "Image") return ProviderAnswer::Holds::kImage;
  if (type == "Registry") return ProviderAnswer::Holds::kRegistry;
  if (type == "Global") return ProviderAnswer::Holds::kGlobal;
  return WrongAnswer("credential provider plugin did not return a valid cacheKeyType");
}

Result<std::optional<std::chrono::nanoseconds>> CacheOf(const Json& answer) {
  const auto found = answer.find("cacheDuration");
  if (found == answer.end() || found->is_null()) return std::nullopt;
  const auto time = kube::ParseDuration(MemberText(answer, "cacheDuration"));
  if (!time || time->count() < 0) return WrongAnswer("cacheDuration is no duration");
  return time;
}

Result<Keyring> LoginsOf(const Json& answer) {
  Keyring keyring;
  const auto auths = answer.find("auth");
  if (auths == answer.end() || auths->is_null()) return keyring;
  if (!auths->is_object()) return WrongAnswer("auth is no object");
  if (auths->size() > kMostLogins) return WrongAnswer("auth has more than 1000 entries");
  for (const auto& [key, login] : auths->items()) {
    if (!login.is_object()) return WrongAnswer("an entry of auth is no object");
    keyring.Add(key, {MemberText(login, "username"), MemberText(login, "password")});
  }
  return keyring;
}

}  // namespace

std::string ProviderRequest(const CredentialProvider& provider, const std::string& image,
                            const ProviderIdentity& identity) {
  Json request = {{"kind", "CredentialProviderRequest"},
                  {"apiVersion", provider.api_version},
                  {"image", image}};
  if (!identity.token.empty()) request["serviceAccountToken"] = identity.token;
  if (!identity.annotations.empty()) request["serviceAccountAnnotations"] = identity.annotations;
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<ProviderAnswer> ParseProviderAnswer(const CredentialProvider& provider,
                                           const std::string& output) {
  const Json answer = Json::parse(output, nullptr, false);
  if (!answer.is_object()) return WrongAnswer("it is no JSON object");
  if (MemberText(answer, "kind") != "CredentialProviderResponse") {
    return WrongAnswer("failed to decode: wrong kind, expected CredentialProviderResponse");
  }
  if (MemberText(answer, "apiVersion") != provider.api_version) {
    return InvalidArgument(
        StrCat("apiVersion from credential plugin response did not match expected apiVersion:",
               provider.api_version));
  }
  ProviderAnswer read;
  ASSIGN_OR_RETURN(read.holds, HoldsOf(answer));
  ASSIGN_OR_RETURN(read.cache, CacheOf(answer));
  ASSIGN_OR_RETURN(read.keyring, LoginsOf(answer));
  return read;
}

}  // namespace holdfast::agent
