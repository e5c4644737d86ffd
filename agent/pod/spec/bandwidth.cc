// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/bandwidth.h"

#include <string>

#include "agent/kube/quantity.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr int64_t kLeast = 1'000;
constexpr int64_t kMost = 1'000'000'000'000'000;

Result<uint64_t> RateOf(const corev1::Pod& pod, const std::string& key) {
  const auto& annotations = pod.metadata().annotations();
  const auto found = annotations.find(key);
  if (found == annotations.end()) return uint64_t{0};
  ASSIGN_OR_RETURN(const kube::Amount amount,
                   WithContext(kube::Amount::Parse(found->second), StrCat("annotation ", key)));
  const int64_t bits = amount.Units();
  if (bits < kLeast || bits > kMost) {
    return InvalidArgument(StrCat("annotation ", key, ": \"", found->second, "\" is unreasonably ",
                                  bits < kLeast ? "small (< 1kbit)" : "large (> 1Pbit)"));
  }
  return static_cast<uint64_t>(bits);
}

}  // namespace

Result<PodBandwidth> BandwidthOf(const corev1::Pod& pod) {
  PodBandwidth bandwidth;
  ASSIGN_OR_RETURN(bandwidth.ingress, RateOf(pod, "kubernetes.io/ingress-bandwidth"));
  ASSIGN_OR_RETURN(bandwidth.egress, RateOf(pod, "kubernetes.io/egress-bandwidth"));
  return bandwidth;
}

}  // namespace holdfast::agent
