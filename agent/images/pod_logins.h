// SPDX-License-Identifier: Apache-2.0
// The logins that a pod brings: its imagePullSecrets, of the types kubernetes.io/dockerconfigjson
// and kubernetes.io/dockercfg. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/events/event.h"
#include "agent/images/keyring.h"
#include "agent/images/pull_record.h"
#include "agent/kube/types_fwd.h"

namespace holdfast::agent {

class PodInputs;

struct PodLogins {
  struct Secret {
    std::string uid, object_namespace, name;
    Keyring keyring;
  };
  Keyring keyring;                   // of all secrets, and what was added
  std::vector<Secret> secrets;       // in the pod's order
  std::vector<std::string> missing;  // secrets that are not there or cannot be used
  std::vector<RegistryLogin> of_account;
  void Add(const ProvidedLogins& of_node);

  // All logins of the secrets, for whatever repository: who has one may have what it opens.
  std::vector<PullSecret> PullSecrets() const;
  // Who has shown what, when the registry was shown `login`; nothing: it did not ask.
  PullCredentials CredentialsOf(const std::optional<RegistryLogin>& login) const;
};

// `inputs`: none for a pod of a file, which has no secrets.
PodLogins LoginsOfPod(const corev1::Pod& pod, const PodInputs* inputs);

// As a kubelet tells of secrets that it could not have; nullopt when all are there.
std::optional<EventNote> MissingSecretsNote(const PodLogins& logins);

// Whether the API server has not answered yet for one of them.
bool PullSecretsArePending(const corev1::Pod& pod, const PodInputs& inputs);

}  // namespace holdfast::agent
