// SPDX-License-Identifier: Apache-2.0
// PullVerification: of which images that are here a pod has to show that it may have them:
// imagePullCredentialsVerificationPolicy and preloadedImagesVerificationAllowlist. Pure.
// Source: kubernetes pkg/kubelet/images/pullmanager/image_pull_policies.go.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent {

class PullVerification {
 public:
  // `policy`: NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify.
  // `allowed`, of the third only: repositories, or "registry.example/team/*".
  static Result<PullVerification> Make(const std::string& policy,
                                       const std::vector<std::string>& allowed);

  // `pulled`: it was had from its registry by this node for a pod.
  bool IsRequired(const std::string& repository, bool pulled) const;

 private:
  enum class Policy { kNever, kNeverPreloaded, kNeverAllowed, kAlways };
  Policy policy_ = Policy::kNeverPreloaded;
  std::vector<std::string> repositories_, beginnings_;
};

}  // namespace holdfast::agent
