// SPDX-License-Identifier: Apache-2.0
#include "agent/images/keyring.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::string_view kDefaultRegistry = "index.docker.io";
constexpr size_t kMaxEntries = 1000;

struct RegistryPlace {
  std::vector<std::string_view> labels;  // of the host
  std::string_view port, path;           // the path with its slash
};

RegistryPlace RegistryPlaceOf(std::string_view text) {
  RegistryPlace place;
  const size_t slash = text.find('/');
  std::string_view host = text.substr(0, slash);
  if (slash != std::string_view::npos) place.path = text.substr(slash);
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    place.port = host.substr(colon + 1);
    host = host.substr(0, colon);
  }
  for (size_t begin = 0; begin <= host.size();) {
    const size_t end = std::min(host.find('.', begin), host.size());
    place.labels.push_back(host.substr(begin, end - begin));
    begin = end + 1;
  }
  return place;
}

// '*' any characters, '?' one, "[a-z]" one of them. Without backtracking into an earlier star, so
// that no pattern takes long.
bool MatchesOne(std::string_view& glob, char c) {
  if (glob.front() != '[') {
    const bool fits = glob.front() == '?' || glob.front() == c;
    glob.remove_prefix(1);
    return fits;
  }
  const size_t end = glob.find(']', 1);
  if (end == std::string_view::npos) return false;
  std::string_view set = glob.substr(1, end - 1);
  glob.remove_prefix(end + 1);
  const bool negated = set.starts_with('^');
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (size_t i = 0; i < set.size(); ++i) {
    const bool range = i + 2 < set.size() && set[i + 1] == '-';
    found = found || (range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
    if (range) i += 2;
  }
  return found != negated;
}

bool LabelMatches(std::string_view glob, std::string_view text) {
  std::optional<std::pair<std::string_view, std::string_view>> star;  // what follows it, and where
  while (true) {
    if (glob.starts_with('*')) {
      glob.remove_prefix(1);
      star = std::pair(glob, text);
      continue;
    }
    if (text.empty() && glob.empty()) return true;
    if (!text.empty() && !glob.empty() && MatchesOne(glob, text.front())) {
      text.remove_prefix(1);
      continue;
    }
    if (!star || star->second.empty()) return false;
    star->second.remove_prefix(1);
    std::tie(glob, text) = *star;
  }
}

// A scheme counts for nothing; "/v1/" and "/v2/" stand for the host alone.
std::string Normalised(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  const size_t slash = std::min(key.find('/'), key.size());
  const std::string_view host = key.substr(0, slash);
  std::string_view path = key.substr(slash);
  if (path.starts_with("/v1/") || path.starts_with("/v2/")) path.remove_prefix(3);
  if (path == "/") path = {};
  return StrCat(host, path);
}

bool IsDefaultRegistry(std::string_view repository) {
  const std::string_view host = repository.substr(0, repository.find('/'));
  return host == "docker.io" || host == kDefaultRegistry;
}

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// `auth` is "user:password" in base 64.
std::optional<RegistryLogin> LoginOf(const nlohmann::json& entry) {
  if (!entry.is_object()) return std::nullopt;
  RegistryLogin login{TextOf(entry, "username"), TextOf(entry, "password")};
  const std::string auth = TextOf(entry, "auth");
  if (auth.empty()) return login;
  const auto decoded = DecodeBase64(auth);
  const size_t colon = decoded ? decoded->find(':') : std::string::npos;
  if (colon == std::string::npos) return std::nullopt;
  login.username = decoded->substr(0, colon);
  login.password = decoded->substr(colon + 1);
  while (login.password.ends_with('\0')) login.password.pop_back();
  return login;
}

}  // namespace

bool KeyMatches(std::string_view key, std::string_view repository) {
  const RegistryPlace glob = RegistryPlaceOf(key);
  const RegistryPlace target = RegistryPlaceOf(repository);
  return glob.port == target.port && glob.labels.size() == target.labels.size() &&
         target.path.starts_with(glob.path) &&
         std::ranges::equal(glob.labels, target.labels, LabelMatches);
}

void Keyring::Add(std::string_view key, RegistryLogin login) {
  std::string name = Normalised(key);
  if (login.username.empty() && login.password.empty()) return;
  const auto after =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry.first < name; });
  entries_.insert(after, {std::move(name), std::move(login)});
}

void Keyring::Add(const Keyring& other) {
  entries_.insert(entries_.end(), other.entries_.begin(), other.entries_.end());
}

std::vector<RegistryLogin> Keyring::Logins() const {
  std::vector<RegistryLogin> logins;
  for (const auto& [key, login] : entries_) logins.push_back(login);
  return logins;
}

std::vector<RegistryLogin> Keyring::Find(const std::string& repository) const {
  std::vector<RegistryLogin> found;
  const auto add = [&](const RegistryLogin& login) {
    if (std::ranges::find(found, login) == found.end()) found.push_back(login);
  };
  for (const auto& [key, login] : entries_) {
    if (KeyMatches(key, repository)) add(login);
  }
  if (!found.empty() || !IsDefaultRegistry(repository)) return found;
  for (const auto& [key, login] : entries_) {
    if (key == kDefaultRegistry) add(login);
  }
  return found;
}

Result<Keyring> ParseDockerConfig(std::string_view text, bool legacy) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return InvalidArgument("is no JSON object");
  const nlohmann::json* auths = &json;
  if (!legacy) {
    const auto found = json.find("auths");
    if (found == json.end()) return Keyring();
    auths = &*found;
  }
  if (!auths->is_object()) return InvalidArgument("auths: is no JSON object");
  if (auths->size() > kMaxEntries) return InvalidArgument("has more than 1000 entries");
  Keyring keyring;
  for (const auto& [key, entry] : auths->items()) {
    auto login = LoginOf(entry);
    if (!login) return InvalidArgument(StrCat("the entry of ", key, " cannot be read"));
    keyring.Add(key, std::move(*login));
  }
  return keyring;
}

}  // namespace holdfast::agent
