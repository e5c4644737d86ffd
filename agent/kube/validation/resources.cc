// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agent/kube/pod_resources.h"
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr std::string_view kHugePages = "hugepages-";

bool IsNative(std::string_view name) {
  return name.find('/') == std::string_view::npos ||
         name.find("kubernetes.io/") != std::string_view::npos;
}

bool IsStandard(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
         name.starts_with(kHugePages);
}

// A vendor's resource: counted, not shared.
bool IsExtended(std::string_view name) {
  return !IsNative(name) && !name.starts_with("requests.") &&
         CheckQualifiedName(StrCat("requests.", name)).empty();
}

bool MayOvercommit(std::string_view name) {
  return IsNative(name) && !name.starts_with(kHugePages);
}

// Objects, of which there are whole ones only.
bool IsCounted(std::string_view name) {
  static constexpr std::string_view kObjects[] = {"pods",
                                                  "resourcequotas",
                                                  "services",
                                                  "replicationcontrollers",
                                                  "secrets",
                                                  "configmaps",
                                                  "services.nodeports",
                                                  "persistentvolumeclaims",
                                                  "services.loadbalancers"};
  return std::find(std::begin(kObjects), std::end(kObjects), name) != std::end(kObjects);
}

// What quotas count; a name without a domain must be one of these or of a container's.
bool IsQuotaResource(std::string_view name) {
  static constexpr std::string_view kCounted[] = {"requests.cpu",
                                                  "requests.memory",
                                                  "requests.ephemeral-storage",
                                                  "limits.cpu",
                                                  "limits.memory",
                                                  "pods",
                                                  "limits.ephemeral-storage",
                                                  "services",
                                                  "resourcequotas",
                                                  "secrets",
                                                  "replicationcontrollers",
                                                  "configmaps",
                                                  "persistentvolumeclaims",
                                                  "storage",
                                                  "requests.storage",
                                                  "services.nodeports",
                                                  "services.loadbalancers"};
  return std::find(std::begin(kCounted), std::end(kCounted), name) != std::end(kCounted) ||
         name.starts_with("requests.hugepages-");
}

void CheckName(const std::string& name, bool pod_level, const std::string& path, Report* report) {
  const Faults faults = CheckQualifiedName(name);
  report->InvalidEach(path, name, faults);
  const bool plain = name.find('/') == std::string::npos;
  const bool known = !plain || IsStandard(name) || IsQuotaResource(name);
  if (faults.empty() && !known) {
    report->Invalid(path, name, "must be a standard resource type or fully qualified");
  }
  if (pod_level) {
    if (!faults.empty() || !known) return;
    if (!MayBePodLevel(name)) {
      report->NotSupported(path, name, {"cpu", "hugepages-", "memory"});
    }
  } else if (plain && !IsStandard(name)) {
    report->Invalid(path, name, "must be a standard resource for containers");
  } else if (!plain && !IsNative(name) && !IsExtended(name)) {
    report->Invalid(path, name, "doesn't follow extended resource name standard");
  }
}

// "hugepages-2Mi" must be a multiple of 2Mi.
bool IsWholePages(std::string_view name, const Amount& amount) {
  const auto page = Amount::Parse(name.substr(kHugePages.size()));
  return page.has_value() && page->Units() > 0 && page->IsWhole() &&
         amount.Units() % page->Units() == 0;
}

void CheckAmount(const std::string& name, const std::string& text, const std::string& path,
                 Report* report) {
  const auto amount = Amount::Parse(text);
  if (!amount) return report->Invalid(path, text, amount.error().message());
  if (amount->IsNegative()) {
    report->Invalid(path, text, "must be greater than or equal to 0");
  }
  if ((IsExtended(name) || IsCounted(name)) && !amount->IsWhole()) {
    report->Invalid(path, text, "must be an integer");
  }
  if (name.starts_with(kHugePages) && !IsWholePages(name, *amount)) {
    report->Invalid(path, text, StrCat(text, " is not positive integer multiple of ", name));
  }
}

std::map<std::string, std::string> Texts(const QuantityMap& quantities) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, quantity] : quantities) {
    texts[name] = quantity.string().empty() ? "0" : quantity.string();
  }
  return texts;
}

void CheckRequestAgainstLimit(const std::string& name, const std::string& request,
                              const std::map<std::string, std::string>& limits,
                              const std::string& path, Report* report) {
  const auto limit = limits.find(name);
  if (limit == limits.end()) {
    if (!MayOvercommit(name)) {
      report->Required(Child(path, "limits"), "Limit must be set for non overcommitable resources");
    }
    return;
  }
  const auto wanted = Amount::Parse(request);
  const auto most = Amount::Parse(limit->second);
  if (!wanted || !most) return;
  const std::string here = Child(path, "requests");
  if (*wanted != *most && !MayOvercommit(name)) {
    report->Invalid(here, request, StrCat("must be equal to ", name, " limit of ", limit->second));
  } else if (*wanted > *most) {
    report->Invalid(here, request,
                    StrCat("must be less than or equal to ", name, " limit of ", limit->second));
  }
}

// Huge pages are no way to run a container on nothing else.
void CheckHugePages(const std::map<std::string, std::string>& limits,
                    const std::map<std::string, std::string>& requests, const std::string& path,
                    Report* report) {
  const auto any = [&](auto predicate) {
    return std::any_of(limits.begin(), limits.end(), predicate) ||
           std::any_of(requests.begin(), requests.end(), predicate);
  };
  const bool huge = any([](const auto& entry) { return entry.first.starts_with(kHugePages); });
  const bool base =
      any([](const auto& entry) { return entry.first == "cpu" || entry.first == "memory"; });
  if (huge && !base) report->Forbidden(path, "HugePages require cpu or memory");
}

// The containers of a pod fit into what the pod as a whole asks for and may use.
void CheckSums(const corev1::PodSpec& spec, const std::string& path, Report* report) {
  corev1::PodSpec containers_only = spec;
  containers_only.clear_resources();
  containers_only.clear_overhead();
  const auto check = [&](const ResourceList& sums, const QuantityMap& of_pod, const char* field) {
    for (const auto& [name, sum] : sums) {
      const auto entry = of_pod.find(name);
      if (entry == of_pod.end()) continue;
      const auto pod = Amount::Parse(entry->second.string());
      if (!pod.has_value() || sum <= *pod) continue;
      report->Invalid(Key(Child(path, field), name), entry->second.string(),
                      StrCat("must be greater than or equal to aggregate container ", field, " of ",
                             sum.ToString()));
    }
  };
  check(PodRequests(containers_only), spec.resources().requests(), "requests");
  ResourceList huge = PodLimits(containers_only);
  std::erase_if(huge, [](const auto& entry) { return !entry.first.starts_with(kHugePages); });
  check(huge, spec.resources().limits(), "limits");
  for (int i = 0; i < spec.containers_size(); ++i) {
    for (const auto& [name, limit] : Limits(spec.containers(i))) {
      const auto entry = spec.resources().limits().find(name);
      if (entry == spec.resources().limits().end()) continue;
      const auto pod = Amount::Parse(entry->second.string());
      if (!pod.has_value() || limit <= *pod) continue;
      report->Invalid(Key(Child(Child(Index("spec.containers", i), "resources"), "limits"), name),
                      limit.ToString(),
                      StrCat("must be less than or equal to pod limits of ", pod->ToString()));
    }
  }
}

void CheckRequirements(const corev1::ResourceRequirements& resources, bool pod_level,
                       const std::string& path, Report* report) {
  const auto limits = Texts(resources.limits());
  const auto requests = Texts(resources.requests());
  for (const auto& [name, text] : limits) {
    const std::string here = Key(Child(path, "limits"), name);
    CheckName(name, pod_level, here, report);
    CheckAmount(name, text, here, report);
  }
  for (const auto& [name, text] : requests) {
    const std::string here = Key(Child(path, "requests"), name);
    CheckName(name, pod_level, here, report);
    CheckAmount(name, text, here, report);
    CheckRequestAgainstLimit(name, text, limits, path, report);
  }
  CheckHugePages(limits, requests, path, report);
}

}  // namespace

void CheckResources(const corev1::ResourceRequirements& resources, const PodContext& pod,
                    const std::string& path, Report* report) {
  CheckRequirements(resources, false, path, report);
  CheckClaimNames(resources, pod.spec, Child(path, "claims"), report);
}

void CheckPodResources(const corev1::PodSpec& spec, Report* report) {
  if (!spec.has_resources()) return;
  const std::string path = "spec.resources";
  if (spec.os().name() == "windows") {
    return report->Forbidden(path, "may not be set for a windows pod");
  }
  if (!spec.resources().claims().empty()) {
    report->Forbidden(Child(path, "claims"), "claims may not be set for Resources at pod-level");
  }
  CheckRequirements(spec.resources(), true, path, report);
  CheckClaimNames(spec.resources(), spec, Child(path, "claims"), report);
  CheckSums(spec, path, report);
}

// What a pod costs beyond its containers is told by its runtime class; nobody else knows.
void CheckOverhead(const corev1::PodSpec& spec, Report* report) {
  if (!spec.overhead().empty() && !spec.has_runtimeclassname()) {
    report->Forbidden("spec.overhead",
                      "Pod Overhead set without corresponding RuntimeClass defined Overhead");
  }
  for (const auto& [name, text] : Texts(spec.overhead())) {
    const std::string here = Key("spec.overhead", name);
    CheckName(name, false, here, report);
    CheckAmount(name, text, here, report);
  }
  CheckHugePages(Texts(spec.overhead()), {}, "spec.overhead", report);
}

}  // namespace holdfast::agent::kube
