// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/identity_step.h"

namespace holdfast::agent {

IdentityStep DecideIdentity(const IdentityFacts& facts) {
  const bool usable = facts.kubeconfig == KubeConfigKind::kOurs
                          ? facts.certificate_usable
                          : facts.kubeconfig == KubeConfigKind::kOthers && !facts.others_expired;
  if (usable) return IdentityStep::kUse;
  if (!facts.has_bootstrap) {
    return facts.kubeconfig == KubeConfigKind::kUnusable ? IdentityStep::kNothing
                                                         : IdentityStep::kUse;
  }
  return facts.certificate_usable ? IdentityStep::kWriteKubeconfig : IdentityStep::kBootstrap;
}

}  // namespace holdfast::agent
