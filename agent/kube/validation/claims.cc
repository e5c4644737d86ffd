// SPDX-License-Identifier: Apache-2.0
// Claims of devices: those of the pod, and what its containers use of them.
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

void CheckClaim(const corev1::PodResourceClaim& claim, std::set<std::string>* names,
                const std::string& path, Report* report) {
  if (claim.name().empty()) {
    report->Required(Child(path, "name"));
  } else if (!names->insert(claim.name()).second) {
    report->Duplicate(Child(path, "name"), claim.name());
  } else {
    report->InvalidEach(Child(path, "name"), claim.name(), CheckDns1123Label(claim.name()));
  }
  if (claim.has_resourceclaimname() && claim.has_resourceclaimtemplatename()) {
    report->InvalidLiteral(
        path, ShownJson(claim),
        "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
  }
  if (!claim.has_resourceclaimname() && !claim.has_resourceclaimtemplatename()) {
    report->InvalidLiteral(path, ShownJson(claim),
                           "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
  }
  if (claim.has_resourceclaimname()) {
    report->InvalidEach(Child(path, "resourceClaimName"), claim.resourceclaimname(),
                        CheckDns1123Subdomain(claim.resourceclaimname()));
  }
  if (claim.has_resourceclaimtemplatename()) {
    report->InvalidEach(Child(path, "resourceClaimTemplateName"), claim.resourceclaimtemplatename(),
                        CheckDns1123Subdomain(claim.resourceclaimtemplatename()));
  }
}

std::set<std::string> ClaimNames(const corev1::PodSpec& spec) {
  std::set<std::string> names;
  for (const corev1::PodResourceClaim& claim : spec.resourceclaims()) {
    if (!claim.name().empty()) names.insert(claim.name());
  }
  return names;
}

// A claim as a whole is "NAME", one request of it "NAME/REQUEST"; whoever uses the whole may not
// use a part as well.
void CheckUnique(const corev1::ResourceClaim& claim, std::set<std::string>* used,
                 const std::string& path, Report* report) {
  if (used->contains(claim.name())) return report->Duplicate(path, claim.name());
  std::string key = claim.name();
  if (!claim.request().empty()) {
    report->InvalidEach(Child(path, "request"), claim.request(),
                        CheckDns1123Label(claim.request()));
    key += "/" + claim.request();
  }
  if (used->contains(key)) {
    report->Duplicate(path, key);
  } else if (claim.request().empty()) {
    const std::string part = claim.name() + "/";
    for (auto it = used->lower_bound(part); it != used->end() && it->starts_with(part); ++it) {
      report->Duplicate(path, claim.name());
    }
  }
  used->insert(std::move(key));
}

}  // namespace

void CheckPodClaims(const corev1::PodSpec& spec, Report* report) {
  std::set<std::string> names;
  for (int i = 0; i < spec.resourceclaims_size(); ++i) {
    CheckClaim(spec.resourceclaims(i), &names, Index("spec.resourceClaims", i), report);
  }
}

void CheckClaimNames(const corev1::ResourceRequirements& resources, const corev1::PodSpec& spec,
                     const std::string& path, Report* report) {
  if (resources.claims().empty()) return;
  const std::set<std::string> known = ClaimNames(spec);
  std::set<std::string> used;
  for (int i = 0; i < resources.claims_size(); ++i) {
    const corev1::ResourceClaim& claim = resources.claims(i);
    const std::string here = Index(path, i);
    if (claim.name().empty()) {
      report->Required(here);
      continue;
    }
    CheckUnique(claim, &used, here, report);
    if (known.contains(claim.name())) continue;
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? ": " : ", ") + name;
    report->NotFound(here, claim.name(),
                     "must be one of the names in pod.spec.resourceClaims" +
                         (known.empty() ? " which is empty" : list));
  }
}

}  // namespace holdfast::agent::kube
