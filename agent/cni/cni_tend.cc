// SPDX-License-Identifier: Apache-2.0
// CniNetwork: what is done besides, on the watch's thread: whether former attachments still stand, and garbage.
#include <mutex>
#include <utility>

#include "agent/cni/chain.h"
#include "agent/cni/claim.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

using std::chrono::steady_clock;

// At start, and when the network is another one. Garbage is tried again until no other verb is under way.
void CniNetwork::Tend(const cni::NetworkConfig& network, bool changed) {
  if (!std::exchange(checked_, true)) CheckAll();
  if (changed) garbage_ = true;
  if (garbage_ && CollectGarbage(network)) garbage_ = false;
}

// False when another verb is under way.
bool CniNetwork::CollectGarbage(const cni::NetworkConfig& network) {
  std::vector<cni::ValidAttachment> valid;
  {
    const std::lock_guard lock(mutex_);
    if (!busy_.empty()) return false;
    collecting_ = true;
    for (const auto& [uid, entry] : entries_) {
      if (entry.attachment.network.name != network.name) continue;
      const cni::PluginTarget& target = entry.attachment.attached.target;
      valid.push_back({target.container_id, target.interface});
    }
  }
  const auto done = cni::GarbageCollect(plugins_, network, valid,
                                        steady_clock::now() + options_.background_limit);
  {
    const std::lock_guard lock(mutex_);
    collecting_ = false;
  }
  freed_.notify_all();
  if (!done) Warn(StrCat("network \"", network.name, "\": ", done.error().message()));
  return true;
}

// Of the pods that ran before this agent did. What does not stand any more is told and left as it is, as a kubelet
// leaves it: the pod's connections are gone with it, and who deletes the pod gets a new one. One that takes too long ends
// it: the rest would, too.
void CniNetwork::CheckAll() {
  std::vector<PodUid> uids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, entry] : entries_) uids.push_back(uid);
  }
  for (const PodUid& uid : uids) {
    const Claim claim(*this, uid, std::try_to_lock);
    if (!claim) continue;  // it is attached anew or detached just now
    const auto attachment = Find(uid);
    if (!attachment || !IsAttached(*attachment)) continue;
    const auto stands =
        cni::Check(plugins_, attachment->network, attachment->attached, attachment->result,
                   steady_clock::now() + options_.background_limit);
    if (stands) continue;
    Warn(StrCat("pod ", attachment->pod_namespace, "/", attachment->pod_name, ": ",
                stands.error().message(),
                ": its network is not as it was made; it stays so until the pod is deleted"));
    if (stands.error().code() == Code::kDeadlineExceeded) return;
  }
}

}  // namespace holdfast::agent
