// SPDX-License-Identifier: Apache-2.0
// What a node does about who it is, from what lies on its disk. Pure. Source: control-plane.md 2.2, 2.5.
#pragma once

#include <cstdint>

namespace holdfast::agent {

// What the file says that `kubeconfig` names.
enum class KubeConfigKind : uint8_t {
  kUnusable,  // it is missing, or cannot be read
  kOthers,    // credentials that somebody else made and renews
  kOurs,      // the certificate in certDirectory
};

struct IdentityFacts {
  bool has_bootstrap = false;
  KubeConfigKind kubeconfig = KubeConfigKind::kUnusable;
  bool others_expired = false;      // the certificate of kOthers
  bool certificate_usable = false;  // of certDirectory: of this node, and its time is not over
};

enum class IdentityStep : uint8_t {
  kUse,              // the kubeconfig, as good as it is
  kWriteKubeconfig,  // with the certificate that is there already
  kBootstrap,        // ask for a certificate by the bootstrap credentials
  kNothing,          // there is nothing to show
};

// A file that is there is never replaced before there is something better.
IdentityStep DecideIdentity(const IdentityFacts& facts);

}  // namespace holdfast::agent
