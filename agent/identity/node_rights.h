// SPDX-License-Identifier: Apache-2.0
// What a node's identity must be allowed in its cluster, and what grants it where it is not: asked of the API server by
// SelfSubjectAccessReviews. Source: control-plane.md 1.7, 2.7.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/cluster/api.h"
#include "k8s/authorization/v1/access_review.pb.h"

namespace holdfast::agent {

struct MissingRight {
  std::string verb;      // "list"
  std::string resource;  // "endpointslices.discovery.k8s.io", "nodes/status"
  std::string without;   // what does not work then
};

struct RightsReview {
  std::vector<MissingRight> missing;
  std::string
      manifest;  // YAML that grants what bindings can grant; "" when there is nothing to grant
  std::string advice;   // for what no binding can; "" for nothing
  std::string unknown;  // why not everything is known; "" when it is
};

// One right, how it is asked for, and what it is good for.
struct NeededRight {
  enum class Grant { kProxier, kRenewal, kNodeAuthorizer };
  k8s::io::api::authorization::v1::ResourceAttributes attributes;
  std::string without;
  Grant grant = Grant::kNodeAuthorizer;
};
// Pure.
std::vector<NeededRight> RightsOfNode(const std::string& node_name, bool renews_certificate);
RightsReview Summarize(const std::vector<NeededRight>& denied, const std::string& unknown);

// Asks for all of them at once. Blocks, at most for about `limit`; not on the API thread.
RightsReview ReviewRights(Api& api, const std::vector<NeededRight>& rights,
                          std::chrono::milliseconds limit = std::chrono::seconds(10));

// As packaging/kubernetes has them.
std::string ProxierManifest();
std::string RenewalManifest();

}  // namespace holdfast::agent
