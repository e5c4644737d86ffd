// SPDX-License-Identifier: Apache-2.0
// PulledRecord: with which credentials an image was had from its registry, in the form of a
// kubelet's ImagePulledRecord (kubelet.config.k8s.io), and who may use it for that. Pure.
// Source: KEP-2535; kubernetes pkg/kubelet/images/pullmanager.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"

namespace holdfast::agent {

// A login of a Secret of type kubernetes.io/dockerconfigjson or dockercfg.
struct PullSecret {
  std::string uid, object_namespace, name;
  std::string credential_hash;
  bool operator==(const PullSecret&) const = default;
};

// Who has shown that he may have an image.
struct PullCredentials {
  bool node_pods = false;  // every pod of the node: nothing was shown, or what is the node's own
  std::vector<PullSecret> secrets;
  bool operator==(const PullCredentials&) const = default;
};

struct PulledRecord {
  WallTime updated;
  std::string image_ref;                                // the image's id
  std::map<std::string, PullCredentials> repositories;  // "registry.example/team/app"
};

std::string HashOf(const RegistryLogin& login);

std::string EncodePulledRecord(const PulledRecord& record);
Result<PulledRecord> DecodePulledRecord(const std::string& text);
// An ImagePullIntent: that a pull of this image was begun.
std::string EncodePullIntent(const std::string& image);
Result<std::string> DecodePullIntent(const std::string& text);

// What was shown now beside what was before; a secret that is known has a new hash.
void MergeCredentials(PullCredentials& known, const PullCredentials& shown);

// Whether a pod with these secrets need show nothing to the registry again: the node was let in, a
// secret is one of those, or holds the same login as one.
bool IsAccessible(const PulledRecord& record, const std::string& repository,
                  const std::vector<PullSecret>& of_pod);

// The file that an image's record or intent is in.
std::string RecordFileName(std::string_view image);

}  // namespace holdfast::agent
