// SPDX-License-Identifier: Apache-2.0
// ConfigMaps and Secrets. No value of a Secret is in a fault's text.
#include "k8s/core/v1/config.pb.h"

#include <algorithm>

#include "agent/kube/parse.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/validate.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kMostBytes = 1u << 20;  // of all values together
constexpr char kAccountName[] = "kubernetes.io/service-account.name";
constexpr char kWholeObject[] = "[]";  // as an API server writes the path of no field

template <class Values>
std::vector<std::string> SortedKeys(const Values& values) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : values) keys.push_back(key);
  std::ranges::sort(keys);
  return keys;
}

template <class Values>
void CheckKeys(const Values& values, const std::string& path, Report* report) {
  for (const std::string& key : SortedKeys(values)) {
    report->InvalidEach(Key(path, key), key, CheckConfigKey(key));
  }
}

template <class Values>
size_t BytesOf(const Values& values) {
  size_t bytes = 0;
  for (const auto& [key, value] : values) bytes += value.size();
  return bytes;
}

// An object, or null. A key that is there twice is no fault to who reads it.
bool IsJsonObject(std::string_view text) {
  const ParsedText parsed = ParseJson(text);
  const auto stops = [](const ParseError& error) { return error.path.empty(); };
  if (parsed.documents.size() != 1 || std::ranges::any_of(parsed.errors, stops)) return false;
  const Node::Kind kind = parsed.documents.front().kind;
  return kind == Node::Kind::kMap || kind == Node::Kind::kNull;
}

void CheckRegistryLogins(const corev1::Secret& secret, const std::string& key, Report* report) {
  const auto found = secret.data().find(key);
  if (found == secret.data().end()) return report->Required(Key("data", key));
  if (IsJsonObject(found->second)) return;
  report->InvalidLiteral(Key("data", key), "\"<secret contents redacted>\"", "not a JSON object");
}

void RequireKey(const corev1::Secret& secret, const std::string& key, Report* report) {
  if (!secret.data().contains(key)) report->Required(Key("data", key));
}

// What each of Kubernetes' own types must hold.
void CheckType(const corev1::Secret& secret, Report* report) {
  const std::string& type = secret.type();
  if (type == "kubernetes.io/service-account-token") {
    const auto& annotations = secret.metadata().annotations();
    const auto account = annotations.find(kAccountName);
    if (account == annotations.end() || account->second.empty()) {
      report->Required(Key("metadata.annotations", kAccountName));
    }
  } else if (type == "kubernetes.io/dockercfg") {
    CheckRegistryLogins(secret, ".dockercfg", report);
  } else if (type == "kubernetes.io/dockerconfigjson") {
    CheckRegistryLogins(secret, ".dockerconfigjson", report);
  } else if (type == "kubernetes.io/basic-auth") {
    if (secret.data().contains("username") || secret.data().contains("password")) return;
    RequireKey(secret, "username", report);
    RequireKey(secret, "password", report);
  } else if (type == "kubernetes.io/ssh-auth") {
    const auto key = secret.data().find("ssh-privatekey");
    if (key == secret.data().end() || key->second.empty()) {
      report->Required(Key("data", "ssh-privatekey"));
    }
  } else if (type == "kubernetes.io/tls") {
    RequireKey(secret, "tls.crt", report);
    RequireKey(secret, "tls.key", report);
  }
}

}  // namespace

FieldErrors ValidateConfigMap(const corev1::ConfigMap& map) {
  Report report;
  CheckObjectMeta(map.metadata(), CheckDns1123Subdomain, "metadata", &report);
  CheckKeys(map.data(), "data", &report);
  for (const std::string& key : SortedKeys(map.data())) {
    if (!map.binarydata().contains(key)) continue;
    report.Invalid(Key("data", key), key, "duplicate of key present in binaryData");
  }
  CheckKeys(map.binarydata(), "binaryData", &report);
  if (BytesOf(map.data()) + BytesOf(map.binarydata()) > kMostBytes) {
    report.TooLong(kWholeObject, kMostBytes);
  }
  return report.Take();
}

FieldErrors ValidateSecret(const corev1::Secret& secret) {
  Report report;
  CheckObjectMeta(secret.metadata(), CheckDns1123Subdomain, "metadata", &report);
  CheckKeys(secret.data(), "data", &report);
  if (BytesOf(secret.data()) > kMostBytes) report.TooLong("data", kMostBytes);
  CheckType(secret, &report);
  return report.Take();
}

}  // namespace holdfast::agent::kube
