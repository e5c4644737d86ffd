// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/credentials/targets.h"

#include <string>

#include "agent/identity/exec_credential.h"
#include "agent/images/keyring.h"
#include "agent/images/provider_config.h"
#include "agent/images/provider_exchange.h"
#include "agent/images/pull_record.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

namespace {

void FindIn(const agent::Keyring& keyring, std::string_view input) {
  const size_t all = keyring.Logins().size();
  for (const char* repository : {"docker.io/library/nginx", "r.example:5000/team/app"}) {
    Require(keyring.Find(repository).size() <= all, "what is found is there", input);
  }
}

}  // namespace

void FuzzDockerConfig(std::string_view input) {
  for (const bool legacy : {false, true}) {
    const auto keyring = agent::ParseDockerConfig(input, legacy);
    if (keyring) FindIn(*keyring, input);
  }
}

void FuzzProviderConfig(std::string_view input) {
  const auto providers = agent::ParseProviderConfig(std::string(input), "/etc/providers.yaml");
  if (!providers) return;
  for (const agent::CredentialProvider& provider : *providers) {
    Require(!provider.name.empty() && provider.name.find('/') == std::string::npos,
            "a program is a file of the directory", input);
    Require(!provider.match_images.empty(), "a program is for some image", input);
  }
}

void FuzzProviderAnswer(std::string_view input) {
  agent::CredentialProvider provider;
  provider.api_version = "credentialprovider.kubelet.k8s.io/v1";
  const auto answer = agent::ParseProviderAnswer(provider, std::string(input));
  if (!answer) return;
  Require(!answer->cache || answer->cache->count() >= 0, "no time is negative", input);
  FindIn(answer->keyring, input);
}

void FuzzPulledRecord(std::string_view input) {
  const auto intent = agent::DecodePullIntent(std::string(input));
  if (intent) Require(!intent->empty(), "an intent is about an image", input);
  const auto record = agent::DecodePulledRecord(std::string(input));
  if (!record) return;
  const std::string text = agent::EncodePulledRecord(*record);
  const auto again = agent::DecodePulledRecord(text);
  Require(again && agent::EncodePulledRecord(*again) == text, "what is written is read", input);
}

void FuzzExecCredential(std::string_view input) {
  agent::ExecPlugin plugin;
  plugin.api_version = agent::kExecV1;
  const auto credential = agent::ParseExecCredential(input, plugin);
  if (!credential) return;
  Require(!credential->token.empty() || !credential->certificate_pem.empty(),
          "it holds what can be shown", input);
  Require(credential->certificate_pem.empty() == credential->key_pem.empty(),
          "a certificate has its key", input);
}

}  // namespace holdfast::fuzz
