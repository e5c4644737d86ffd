// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/images/pull_record.h"
#include "tests/fuzz/agent/credentials/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

constexpr char kTextMarks[] = "{}[]:,\"'0-e.n\n *?=/";

TEST(FuzzSmokeTest, DockerConfig) {
  Replay(
      FuzzDockerConfig,
      {R"({"auths":{"https://index.docker.io/v1/":{"auth":"dXNlcjpwOnc="},"*.r.example:5000/team":)"
       R"({"username":"u","password":"p"},"[a-c]?.example":{}},"credsStore":"x"})",
       R"({"docker.io":{"auth":"dTpw"},"r.example:5000":{"auth":"dTpw"}})"},
      kTextMarks);
}

TEST(FuzzSmokeTest, ProviderConfig) {
  Replay(FuzzProviderConfig,
         {"apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
          "- name: ecr\n  matchImages: ['*.dkr.ecr.*.amazonaws.com']\n  defaultCacheDuration: 12h\n"
          "  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [get]\n"
          "  env: [{name: A, value: b}]\n"
          "  tokenAttributes: {serviceAccountTokenAudience: a, requireServiceAccount: true, "
          "cacheType: Token,\n"
          "    requiredServiceAccountAnnotationKeys: [x.y/z]}\n"},
         kTextMarks);
}

TEST(FuzzSmokeTest, ProviderAnswer) {
  Replay(
      FuzzProviderAnswer,
      {R"({"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",)"
       R"("cacheKeyType":"Registry","cacheDuration":"1h0m2s","auth":{"*.r.example":{"username":"u","password":"p"}}})"},
      kTextMarks);
}

TEST(FuzzSmokeTest, PulledRecord) {
  agent::PulledRecord record;
  record.image_ref = "sha256:x";
  record.repositories["docker.io/t/x"].secrets = {{"u", "n", "s", "h"}};
  record.repositories["docker.io/t/y"].node_pods = true;
  Replay(FuzzPulledRecord,
         {agent::EncodePulledRecord(record), agent::EncodePullIntent("docker.io/t/x:1")},
         kTextMarks);
}

TEST(FuzzSmokeTest, ExecCredential) {
  Replay(
      FuzzExecCredential,
      {R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)"
       R"({"token":"t","expirationTimestamp":"2026-11-23T17:04:05Z"}})",
       R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)"
       R"({"clientCertificateData":"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",)"
       R"("clientKeyData":"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"}})"},
      kTextMarks);
}

}  // namespace
}  // namespace holdfast::fuzz
