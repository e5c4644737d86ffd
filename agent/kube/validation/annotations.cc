// SPDX-License-Identifier: Apache-2.0
// Annotations of pods that Kubernetes gives a meaning.
#include <algorithm>
#include <charconv>

#include "agent/kube/app_armor.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr char kPath[] = "metadata.annotations";
constexpr char kMirror[] = "kubernetes.io/config.mirror";
constexpr char kDeletionCost[] = "controller.kubernetes.io/pod-deletion-cost";
constexpr std::string_view kSeccompPod = "seccomp.security.alpha.kubernetes.io/pod";
constexpr std::string_view kSeccomp = "container.seccomp.security.alpha.kubernetes.io/";
constexpr std::string_view kAppArmor = kAppArmorAnnotation;
constexpr std::string_view kLocalhost = "localhost/";

// Without plus sign and leading zeros.
bool IsDeletionCost(std::string_view text) {
  if (text.empty() || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
  if (text[0] == '0' && text != "0") return false;
  int32_t cost = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cost);
  return error == std::errc() && end == text.data() + text.size();
}

void CheckSeccompProfile(const std::string& profile, const std::string& path, Report* report) {
  if (profile == "runtime/default" || profile == "docker/default" || profile == "unconfined")
    return;
  if (!profile.starts_with(kLocalhost)) {
    return report->Invalid(path, profile, "must be a valid seccomp profile");
  }
  CheckRelativePath(std::string_view(profile).substr(kLocalhost.size()), path, report);
}

bool HasContainer(const corev1::PodSpec& spec, std::string_view name) {
  const auto is = [name](const corev1::Container& container) { return container.name() == name; };
  return std::any_of(spec.containers().begin(), spec.containers().end(), is) ||
         std::any_of(spec.initcontainers().begin(), spec.initcontainers().end(), is);
}

void CheckAppArmor(const corev1::PodSpec& spec, const std::string& key, const std::string& profile,
                   Report* report) {
  const std::string container = key.substr(kAppArmor.size());
  if (!HasContainer(spec, container)) {
    report->Invalid(Key(kPath, key), container, "container not found");
  }
  const bool known = profile.empty() || profile == "runtime/default" || profile == "unconfined" ||
                     profile.starts_with(kLocalhost);
  if (!known) {
    report->Invalid(Key(kPath, key), profile,
                    StrCat("invalid AppArmor profile name: ", Quoted(profile)));
  }
}

}  // namespace

void CheckPodAnnotations(const corev1::Pod& pod, Report* report) {
  for (const auto& [key, value] : Sorted(pod.metadata().annotations())) {
    if (key == kMirror && pod.spec().nodename().empty()) {
      report->Invalid(Key(kPath, key), value,
                      "must set spec.nodeName if mirror pod annotation is set");
    } else if (key == kDeletionCost && !IsDeletionCost(value)) {
      report->Invalid(Key(kPath, key), value, "must be a 32bit integer");
    } else if (key == kSeccompPod || key.starts_with(kSeccomp)) {
      CheckSeccompProfile(value, Child(kPath, key), report);
    } else if (key.starts_with(kAppArmor)) {
      CheckAppArmor(pod.spec(), key, value, report);
    }
  }
}

}  // namespace holdfast::agent::kube
