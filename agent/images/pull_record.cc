// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pull_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/wall_time.h"
#include "runtime/image/content/digest.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

// The oldest that every kubelet with such records reads.
constexpr char kRecordVersion[] = "kubelet.config.k8s.io/v1alpha1";
constexpr size_t kMostSecrets = 1000;

Result<Json> ParseRecord(const std::string& text, const char* kind) {
  Json record = Json::parse(text, nullptr, false);
  if (!record.is_object() || record.value("kind", "") != kind ||
      !record.value("apiVersion", "").starts_with("kubelet.config.k8s.io/")) {
    return InvalidArgument(StrCat("is no ", kind));
  }
  return record;
}

Json ToJson(const PullCredentials& credentials) {
  if (credentials.node_pods) return {{"nodePodsAccessible", true}};
  Json secrets = Json::array();
  for (const PullSecret& secret : credentials.secrets) {
    secrets.push_back({{"uid", secret.uid},
                       {"namespace", secret.object_namespace},
                       {"name", secret.name},
                       {"credentialHash", secret.credential_hash}});
  }
  return {{"kubernetesSecrets", std::move(secrets)}};
}

PullCredentials CredentialsFrom(const Json& from) {
  PullCredentials credentials;
  credentials.node_pods = from.value("nodePodsAccessible", false);
  const auto secrets = from.find("kubernetesSecrets");
  if (secrets == from.end()) return credentials;
  for (const Json& one : *secrets) {
    credentials.secrets.push_back({one.value("uid", ""), one.value("namespace", ""),
                                   one.value("name", ""), one.value("credentialHash", "")});
  }
  return credentials;
}

std::string Dump(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsSameSecret(const PullSecret& a, const PullSecret& b) {
  return !a.uid.empty() && a.uid == b.uid && a.object_namespace == b.object_namespace &&
         a.name == b.name;
}

}  // namespace

std::string HashOf(const RegistryLogin& login) {
  return runtime::HexOf(runtime::DigestOf(StrCat(login.username, '\0', login.password)));
}

std::string EncodePulledRecord(const PulledRecord& record) {
  Json mapping = Json::object();
  for (const auto& [repository, credentials] : record.repositories) {
    mapping[repository] = ToJson(credentials);
  }
  return Dump({{"kind", "ImagePulledRecord"},
               {"apiVersion", kRecordVersion},
               {"lastUpdatedTime", kube::FormatRfc3339(record.updated)},
               {"imageRef", record.image_ref},
               {"credentialMapping", std::move(mapping)}});
}

Result<PulledRecord> DecodePulledRecord(const std::string& text) {
  try {
    ASSIGN_OR_RETURN(const Json from, ParseRecord(text, "ImagePulledRecord"));
    PulledRecord record;
    record.image_ref = from.at("imageRef").get<std::string>();
    if (const auto time = kube::ParseRfc3339(from.value("lastUpdatedTime", ""))) {
      record.updated = WallTimeOf(time->seconds);
    }
    const auto mapping = from.find("credentialMapping");
    if (mapping == from.end() || mapping->is_null()) return record;
    for (const auto& [repository, credentials] : mapping->items()) {
      record.repositories[repository] = CredentialsFrom(credentials);
    }
    return record;
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat("is no ImagePulledRecord: ", error.what()));
  }
}

std::string EncodePullIntent(const std::string& image) {
  return Dump({{"kind", "ImagePullIntent"}, {"apiVersion", kRecordVersion}, {"image", image}});
}

Result<std::string> DecodePullIntent(const std::string& text) {
  try {
    ASSIGN_OR_RETURN(const Json from, ParseRecord(text, "ImagePullIntent"));
    return from.at("image").get<std::string>();
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat("is no ImagePullIntent: ", error.what()));
  }
}

void MergeCredentials(PullCredentials& known, const PullCredentials& shown) {
  if (known.node_pods || shown.node_pods) {
    known = {true, {}};
    return;
  }
  for (const PullSecret& secret : shown.secrets) {
    const auto same = std::ranges::find_if(
        known.secrets, [&](const PullSecret& one) { return IsSameSecret(one, secret); });
    if (same != known.secrets.end()) {
      same->credential_hash = secret.credential_hash;
    } else if (known.secrets.size() < kMostSecrets) {
      known.secrets.push_back(secret);
    }
  }
}

bool IsAccessible(const PulledRecord& record, const std::string& repository,
                  const std::vector<PullSecret>& of_pod) {
  const auto known = record.repositories.find(repository);
  if (known == record.repositories.end()) return false;
  if (known->second.node_pods) return true;
  return std::ranges::any_of(of_pod, [&](const PullSecret& mine) {
    return std::ranges::any_of(known->second.secrets, [&](const PullSecret& one) {
      const bool same_login =
          !one.credential_hash.empty() && one.credential_hash == mine.credential_hash;
      return same_login || IsSameSecret(one, mine);
    });
  });
}

std::string RecordFileName(std::string_view image) {
  return StrCat("sha256-", runtime::HexOf(runtime::DigestOf(image)));
}

}  // namespace holdfast::agent
