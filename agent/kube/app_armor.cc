// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/app_armor.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

constexpr char kOfTheNode[] = "localhost/";

std::optional<corev1::AppArmorProfile> OfAnnotation(const std::string& value) {
  corev1::AppArmorProfile profile;
  if (value == "runtime/default") {
    profile.set_type("RuntimeDefault");
  } else if (value == "unconfined") {
    profile.set_type("Unconfined");
  } else if (value.starts_with(kOfTheNode)) {
    profile.set_type("Localhost");
    profile.set_localhostprofile(value.substr(sizeof kOfTheNode - 1));
  } else {
    return {};
  }
  return profile;
}

}  // namespace

std::optional<corev1::AppArmorProfile> AppArmorProfileOf(const corev1::Pod& pod,
                                                         const corev1::Container& container) {
  const auto& own = container.securitycontext();
  if (own.has_apparmorprofile()) return own.apparmorprofile();
  const auto& annotations = pod.metadata().annotations();
  const auto old = annotations.find(StrCat(kAppArmorAnnotation, container.name()));
  if (old != annotations.end()) {
    if (auto profile = OfAnnotation(old->second)) return profile;
  }
  const auto& shared = pod.spec().securitycontext();
  if (shared.has_apparmorprofile()) return shared.apparmorprofile();
  return {};
}

}  // namespace holdfast::agent::kube
