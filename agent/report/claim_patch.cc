// SPDX-License-Identifier: Apache-2.0
#include "agent/report/claim_patch.h"

#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/waiting_call.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

Result<std::string> VersionIn(const kube::Claim& claim, const Result<ApiReply>& reply) {
  const auto failed = [&claim](const std::string& why) {
    return Unavailable(
        StrCat("patchPVCStatus failed to patch PVC \"", claim.metadata().name(), "\": ", why));
  };
  if (!reply) return failed(reply.error().message());
  if (!reply->ok()) return failed(reply->message);
  const auto object = DecodeObject(reply->body, {"v1", "PersistentVolumeClaim"});
  if (!object) return failed(object.error().message());
  return dynamic_cast<const kube::Claim&>(**object).metadata().resourceversion();
}

}  // namespace

Result<std::string> PatchClaim(Api& api, const kube::Claim& claim, std::string patch) {
  const auto& meta = claim.metadata();
  ApiCall call{.verb = ApiVerb::kPatch,
               .path = StrCat("/api/v1/namespaces/", meta.namespace_(), "/persistentvolumeclaims/",
                              meta.name(), "/status"),
               .content_type = kStrategicMergePatchType,
               .body = std::move(patch)};
  return VersionIn(claim, SendAndWait(api, std::move(call)));
}

}  // namespace holdfast::agent
