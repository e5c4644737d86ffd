// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pod_logins.h"

#include <algorithm>

#include "agent/objects/pod_inputs.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

ObjectInput SecretOf(const corev1::Pod& pod, const std::string& name, const PodInputs& inputs) {
  return inputs.Object(PodUid(pod.metadata().uid()),
                       {ObjectKind::kSecret, pod.metadata().namespace_(), name});
}

// Nothing when it holds no logins in a form that is known.
std::optional<Keyring> KeyringOf(const ObjectData& secret) {
  for (const bool legacy : {false, true}) {
    const auto found = secret.values.find(legacy ? ".dockercfg" : ".dockerconfigjson");
    if (found == secret.values.end()) continue;
    auto keyring = ParseDockerConfig(found->second, legacy);
    if (keyring) return std::move(*keyring);
  }
  return std::nullopt;
}

}  // namespace

std::vector<PullSecret> PodLogins::PullSecrets() const {
  std::vector<PullSecret> found;
  for (const Secret& secret : secrets) {
    for (const RegistryLogin& login : secret.keyring.Logins()) {
      found.push_back({secret.uid, secret.object_namespace, secret.name, HashOf(login)});
    }
  }
  return found;
}

void PodLogins::Add(const ProvidedLogins& of_node) {
  keyring.Add(of_node.all);
  of_account = of_node.of_account;
}

PullCredentials PodLogins::CredentialsOf(const std::optional<RegistryLogin>& login) const {
  PullCredentials credentials;
  if (login) {
    credentials.secrets = PullSecrets();
    std::erase_if(credentials.secrets, [hash = HashOf(*login)](const PullSecret& secret) {
      return secret.credential_hash != hash;
    });
  }
  // What the pod's account opens is for this pod: an account of the same name may be another one by then.
  const bool by_account = login && std::ranges::find(of_account, *login) != of_account.end();
  credentials.node_pods = credentials.secrets.empty() && !by_account;
  return credentials;
}

PodLogins LoginsOfPod(const corev1::Pod& pod, const PodInputs* inputs) {
  PodLogins logins;
  for (const auto& reference : pod.spec().imagepullsecrets()) {
    const std::string& name = reference.name();
    if (name.empty()) continue;
    const ObjectInput secret = inputs == nullptr ? ObjectInput() : SecretOf(pod, name, *inputs);
    const auto keyring = secret.data == nullptr ? std::nullopt : KeyringOf(*secret.data);
    if (keyring) {
      logins.keyring.Add(*keyring);
      logins.secrets.push_back({secret.data->uid, pod.metadata().namespace_(), name, *keyring});
    } else {
      logins.missing.push_back(name);
    }
  }
  return logins;
}

std::optional<EventNote> MissingSecretsNote(const PodLogins& logins) {
  if (logins.missing.empty()) return std::nullopt;
  return EventNote{
      true, "FailedToRetrieveImagePullSecret",
      StrCat("Unable to retrieve some image pull secrets (", Join(logins.missing, ", "),
             "); attempting to pull the image may not succeed."),
      "", false};
}

bool PullSecretsArePending(const corev1::Pod& pod, const PodInputs& inputs) {
  const auto& secrets = pod.spec().imagepullsecrets();
  return std::ranges::any_of(secrets, [&](const auto& reference) {
    return !reference.name().empty() &&
           SecretOf(pod, reference.name(), inputs).state == InputState::kPending;
  });
}

}  // namespace holdfast::agent
