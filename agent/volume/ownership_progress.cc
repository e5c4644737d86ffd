// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/ownership_progress.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kFirstTold{30};
constexpr std::chrono::seconds kToldEach{60};
constexpr char kAdvice[] =
    "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
    "#configure-volume-permission-and-ownership-change-policy-for-pods";

// From the pod's UID on, where that is part of it.
std::string ShownVolume(const std::string& path, const std::string& uid) {
  const size_t at = path.find(uid);
  return at == std::string::npos ? path : path.substr(at);
}

}  // namespace

OwnershipProgress::OwnershipProgress(const ::k8s::io::api::core::v1::Pod& pod,
                                     const std::string& path, const TellOwnership& tell, Time begun)
    : pod_(pod),
      volume_(ShownVolume(path, pod.metadata().uid())),
      tell_(tell),
      next_(begun + kFirstTold) {}

void OwnershipProgress::NextFile(Time now) {
  ++files_;
  if (now < next_ || !tell_) return;
  const std::string what = StrCat("Setting volume ownership for ", volume_);
  const std::string message =
      told_ ? StrCat(what, ", processed ", files_, " files.")
            : StrCat(what, " is taking longer than expected, consider using OnRootMismatch - ",
                     kAdvice);
  tell_(pod_, {true, "VolumePermissionChangeInProgress", message, ""});
  told_ = true;
  while (next_ <= now) next_ += kToldEach;
}

}  // namespace holdfast::agent
