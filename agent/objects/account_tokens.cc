// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/account_tokens.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/waiting_call.h"
#include "holdfast/base/expiring.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/namespace.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMostTokens = 1000;
constexpr std::chrono::seconds kLife{3600};  // what an API server gives when nothing is asked for

}  // namespace

// The node's right to a pod's account follows from the pod, of which the server's authorizer may learn later than we did.
Result<ApiReply> ApiAccountTokens::Ask(const ApiCall& call, const std::atomic<bool>& cancelled) {
  milliseconds waited(0);
  for (unsigned tries = 0;; ++tries) {
    auto reply = SendAndWait(api_, call, &cancelled);
    if (!reply || !IsTooEarly(*reply) || waited >= kTooEarlyFor || cancelled) return reply;
    const milliseconds delay = DelayWhenTooEarly(tries);
    std::this_thread::sleep_for(delay);
    waited += delay;
  }
}

Result<ServiceAccountInfo> ApiAccountTokens::Account(const TokenOwner& pod,
                                                     const std::atomic<bool>& cancelled) {
  ApiCall call;
  call.path =
      StrCat("/api/v1/namespaces/", pod.object_namespace, "/serviceaccounts/", pod.service_account);
  call.lane = ApiLane::kPods;
  call.repeatable = true;
  ASSIGN_OR_RETURN(const ApiReply reply, Ask(call, cancelled));
  if (!reply.ok()) return Unavailable(StrCat("failed to get service account: ", reply.message));
  ASSIGN_OR_RETURN(const auto object, DecodeObject(reply.body, {"v1", "ServiceAccount"}));
  const auto& meta =
      dynamic_cast<const k8s::io::api::core::v1::ServiceAccount&>(*object).metadata();
  return ServiceAccountInfo{meta.uid(), {meta.annotations().begin(), meta.annotations().end()}};
}

Result<std::string> ApiAccountTokens::Token(const TokenOwner& pod, const std::string& account_uid,
                                            const std::string& audience,
                                            const std::atomic<bool>& cancelled) {
  const std::string key = StrCat(pod.pod_uid.value, "/", account_uid, "/", audience);
  if (const auto known = Find(key)) return *known;
  const TokenRef ref{audience, kLife};
  ASSIGN_OR_RETURN(ApiReply reply, Ask(TokenCall(pod, ref, account_uid), cancelled));
  if (!reply.ok())
    return Unavailable(StrCat("failed to get service account token: ", reply.message));
  ASSIGN_OR_RETURN(const IssuedToken issued, ReadToken(reply));
  Keep(key, issued);
  return *issued.text;
}

std::shared_ptr<const std::string> ApiAccountTokens::Find(const std::string& key) {
  const WallTime now = clock_.Wall();
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(key);
  // Also what is of the future since the clock was set back is asked for again.
  if (found == kept_.end() || now < found->second.issued || now >= found->second.renew) return {};
  return found->second.text;
}

void ApiAccountTokens::Keep(const std::string& key, const IssuedToken& issued) {
  const WallTime now = clock_.Wall();
  const auto life = std::max<std::chrono::nanoseconds>(issued.expires - now, milliseconds(0));
  const std::lock_guard lock(mutex_);
  MakeRoom(kept_, kMostTokens, now, &Kept::renew);
  kept_.insert_or_assign(key, Kept{issued.text, now, now + life * 4 / 5});
}

}  // namespace holdfast::agent
