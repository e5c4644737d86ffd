// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/exec_credential.h"

#include <algorithm>
#include <utility>

#include "agent/identity/certificate.h"
#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "agent/kube/times.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kKind[] = "ExecCredential";

bool IsToken(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

kube::Node ClusterOf(const KubeConfig& config, const std::string& authority_pem) {
  kube::Node cluster = kube::Node::Map();
  cluster.Add("server", kube::Node::String(config.server));
  if (config.tls_server_name != config.host) {
    cluster.Add("tls-server-name", kube::Node::String(config.tls_server_name));
  }
  if (!authority_pem.empty()) {
    cluster.Add("certificate-authority-data", kube::Node::String(EncodeBase64(authority_pem)));
  }
  const kube::ParsedText own = kube::ParseJson(config.exec->cluster_config);
  if (!own.documents.empty()) cluster.Add("config", own.documents.front());
  return cluster;
}

std::string TextOf(const kube::Node& map, const char* key) {
  const kube::Node* found = map.Find(key);
  return found == nullptr ? "" : found->text;
}

// The text of a member that must be a string where it is there.
Result<std::string> StringOf(const kube::Node& map, const char* key) {
  const kube::Node* found = map.Find(key);
  if (found == nullptr || found->kind == kube::Node::Kind::kNull) return std::string();
  if (found->kind != kube::Node::Kind::kString) {
    return InvalidArgument(
        StrCat("status.", key, " is no string but ", kube::KindName(found->kind)));
  }
  return found->text;
}

Result<void> ReadExpiry(const kube::Node& status, ExecCredential& credential) {
  ASSIGN_OR_RETURN(const std::string text, StringOf(status, "expirationTimestamp"));
  if (text.empty()) return {};
  const auto time = kube::ParseRfc3339(text);
  if (!time) return InvalidArgument("status.expirationTimestamp is no time of RFC 3339");
  credential.expires = kube::ToWallTime(*time);
  return {};
}

// A certificate is over when it says so, whatever stands beside it.
Result<void> ReadPair(const kube::Node& status, ExecCredential& credential) {
  ASSIGN_OR_RETURN(credential.certificate_pem, StringOf(status, "clientCertificateData"));
  ASSIGN_OR_RETURN(credential.key_pem, StringOf(status, "clientKeyData"));
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return InvalidArgument("exec plugin returned only certificate or key, not both");
  }
  if (credential.certificate_pem.empty()) return {};
  RETURN_IF_ERROR(CheckPair({credential.certificate_pem, credential.key_pem}));
  ASSIGN_OR_RETURN(const CertificateFacts facts, ReadCertificate(credential.certificate_pem));
  credential.expires = std::min(credential.expires.value_or(facts.not_after), facts.not_after);
  return {};
}

Result<ExecCredential> ReadStatus(const kube::Node& status) {
  ExecCredential credential;
  RETURN_IF_ERROR(ReadExpiry(status, credential));
  ASSIGN_OR_RETURN(credential.token, StringOf(status, "token"));
  if (!IsToken(credential.token)) {
    return InvalidArgument("status.token has spaces or control characters");
  }
  RETURN_IF_ERROR(ReadPair(status, credential));
  if (credential.token.empty() && credential.certificate_pem.empty()) {
    return InvalidArgument("exec plugin didn't return a token or cert/key pair");
  }
  return credential;
}

}  // namespace

std::string ExecInfo(const KubeConfig& config, const std::string& authority_pem) {
  kube::Node info = kube::Node::Map();
  info.Add("kind", kube::Node::String(kKind));
  info.Add("apiVersion", kube::Node::String(config.exec->api_version));
  kube::Node& spec = info.Add("spec", kube::Node::Map());
  if (config.exec->provide_cluster_info) spec.Add("cluster", ClusterOf(config, authority_pem));
  spec.Add("interactive", kube::Node::Bool(false));
  return kube::CompactJson(info);
}

Result<ExecCredential> ParseExecCredential(std::string_view output, const ExecPlugin& plugin) {
  const kube::ParsedText parsed = kube::ParseJson(output);
  if (!parsed.errors.empty() || parsed.documents.size() != 1) {
    return InvalidArgument(StrCat("decoding stdout: ", parsed.errors.empty()
                                                           ? "expected one object"
                                                           : parsed.errors.front().message));
  }
  const kube::Node& root = parsed.documents.front();
  if (TextOf(root, "kind") != kKind) return InvalidArgument("decoding stdout: no ExecCredential");
  if (const std::string version = TextOf(root, "apiVersion"); version != plugin.api_version) {
    return InvalidArgument(StrCat("exec plugin is configured to use API version ",
                                  plugin.api_version, ", plugin returned version ", version));
  }
  const kube::Node* status = root.Find("status");
  if (status == nullptr || status->kind != kube::Node::Kind::kMap) {
    return InvalidArgument("exec plugin didn't return a status field");
  }
  return ReadStatus(*status);
}

}  // namespace holdfast::agent
