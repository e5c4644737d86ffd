// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/admit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "agent/kube/app_armor.h"
#include "agent/kube/containers_of.h"
#include "agent/kube/pod_resources.h"
#include "agent/pod/admit/node_affinity.h"
#include "agent/pod/admit/sysctls.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kOsLabel[] = "kubernetes.io/os";
constexpr char kOs[] = "linux";

struct Case {
  const corev1::Pod& pod;
  const PodUse& use;
  const NodeOffer& node;
  const NodeUse& used;
};
using Answer = std::optional<Admission>;  // nothing: this question is answered well

// Short of memory only, it takes pods that asked for some of their resources, and those that are told to bear it.
bool MayComeUnderPressure(const corev1::Pod& pod, const NodePressure& pressure) {
  if (kube::IsCriticalPod(pod)) return true;
  if (!pressure.memory || pressure.disk || pressure.pids) return false;
  corev1::Taint taint;
  taint.set_key("node.kubernetes.io/memory-pressure");
  taint.set_effect("NoSchedule");
  return kube::ComputeQosClass(pod.spec()) != model::QosClass::kBestEffort ||
         Tolerates(pod.spec(), taint);
}

Answer AskPressure(const Case& c) {
  const NodePressure& pressure = c.node.pressure;
  std::string conditions;
  const auto add = [&](bool is_true, const char* condition) {
    if (is_true) conditions += StrCat(conditions.empty() ? "" : " ", condition);
  };
  add(pressure.memory, "MemoryPressure");
  add(pressure.disk, "DiskPressure");
  add(pressure.pids, "PIDPressure");
  if (conditions.empty() || MayComeUnderPressure(c.pod, pressure)) return {};
  return Admission{"Evicted", StrCat("The node had condition: [", conditions, "]. ")};
}

Answer AskSysctls(const Case& c) {
  const std::string why = ForbiddenSysctl(c.pod.spec(), c.node.allowed_unsafe_sysctls);
  if (why.empty()) return {};
  return Admission{"SysctlForbidden", StrCat("forbidden sysctl: ", why)};
}

// A claim is allocated by the scheduler and an API server's controllers.
Answer AskClaims(const Case& c) {
  if (c.pod.spec().resourceclaims().empty()) return {};
  return Admission{"UnexpectedAdmissionError",
                   StrCat("resource claim \"", c.pod.spec().resourceclaims(0).name(),
                          "\" cannot be prepared: this node has no API server that could allocate "
                          "it")};
}

Answer AskOs(const Case& c) {
  const auto label = c.pod.metadata().labels().find(kOsLabel);
  if (label != c.pod.metadata().labels().end() && label->second != kOs) {
    return Admission{
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"};
  }
  if (c.pod.spec().has_os() && c.pod.spec().os().name() != kOs) {
    return Admission{"PodOSNotSupported",
                     "Failed to admit pod as the OS field doesn't match node OS"};
  }
  return {};
}

// Not one of Kubernetes' own: "example.com/gpu". Who has none of it says nothing about it.
bool IsExtended(const std::string& resource) {
  return resource.find('/') != std::string::npos &&
         resource.find("kubernetes.io/") == std::string::npos && !resource.starts_with("requests.");
}

std::optional<Lack> LackOf(const std::string& resource, int64_t requested, const NodeOffer& node,
                           const NodeUse& used) {
  const auto offered = node.allocatable.find(resource);
  if (offered == node.allocatable.end() && IsExtended(resource)) return {};
  Lack lack{resource, requested, used.Of(resource), 0};
  if (offered != node.allocatable.end()) {
    lack.capacity = resource == "cpu" ? offered->second.Milli() : offered->second.Units();
  }
  if (requested <= 0 || requested <= lack.capacity - lack.used) return {};
  return lack;
}

Answer AskResources(const Case& c) {
  const std::vector<Lack> lacks = LacksOf(c.use, c.node, c.used);
  if (lacks.empty()) return {};
  const Lack& first = lacks.front();
  return Admission{StrCat("OutOf", first.resource),
                   StrCat("Node didn't have enough resource: ", first.resource, ", requested: ",
                          first.requested, ", used: ", first.used, ", capacity: ", first.capacity)};
}

Answer Failed(const char* predicate, const char* why) {
  return Admission{predicate, StrCat("Predicate ", predicate, " failed: ", why)};
}

Answer AskAffinity(const Case& c) {
  if (MatchesNode(c.pod.spec(), c.node)) return {};
  return Failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
}

Answer AskPorts(const Case& c) {
  const bool taken = std::any_of(c.use.ports.begin(), c.use.ports.end(),
                                 [&](const NodePort& port) { return c.used.IsTaken(port); });
  if (!taken) return {};
  return Failed("NodePorts", "node(s) didn't have free ports for the requested pod ports");
}

Answer AskTaints(const Case& c) {
  if (kube::IsStaticPod(c.pod) || ToleratesNode(c.pod.spec(), c.node)) return {};
  return Failed("TaintToleration", "node(s) had taints that the pod didn't tolerate");
}

// Wherever a profile is named, whether it is one that counts or not, as for a kubelet.
bool NamesAppArmor(const corev1::Pod& pod) {
  const auto names = [](const auto& context) {
    return context.has_apparmorprofile() && context.apparmorprofile().type() != "Unconfined";
  };
  bool named = names(pod.spec().securitycontext());
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList /*list*/, const auto& container) {
    named = named || names(container.securitycontext());
  });
  if (named) return true;
  const auto& annotations = pod.metadata().annotations();
  return std::any_of(annotations.begin(), annotations.end(), [](const auto& annotation) {
    return annotation.first.starts_with(kube::kAppArmorAnnotation) &&
           annotation.second != "unconfined";
  });
}

// Only an annotation can say it: a field that does is refused by validation.
std::string EmptyAppArmorName(const corev1::Pod& pod) {
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const corev1::Container& container : *list) {
      const auto profile = kube::AppArmorProfileOf(pod, container);
      if (!profile || profile->type() != "Localhost") continue;
      const std::string& name = profile->localhostprofile();
      if (name.find_first_not_of(" \t\n\v\f\r") != std::string::npos) continue;
      return StrCat("invalid empty AppArmor profile name: \"&AppArmorProfile{Type:Localhost,",
                    "LocalhostProfile:*", name, ",}\"");
    }
  }
  return "";
}

Answer AskAppArmor(const Case& c) {
  if (!NamesAppArmor(c.pod)) return {};
  const std::string why =
      c.node.no_app_armor.empty() ? EmptyAppArmorName(c.pod) : c.node.no_app_armor;
  if (why.empty()) return {};
  return Admission{"AppArmor", StrCat("Cannot enforce AppArmor: ", why)};
}

}  // namespace

std::vector<Lack> LacksOf(const PodUse& use, const NodeOffer& node, const NodeUse& used) {
  std::map<std::string, int64_t> requests = use.requests;
  std::vector<Lack> lacks;
  for (const char* resource : {"pods", "cpu", "memory", "ephemeral-storage"}) {
    const auto request = requests.extract(resource);
    if (request.empty()) continue;
    if (auto lack = LackOf(resource, request.mapped(), node, used)) lacks.push_back(*lack);
  }
  for (const auto& [resource, requested] : requests) {  // the others by name
    if (auto lack = LackOf(resource, requested, node, used)) lacks.push_back(*lack);
  }
  return lacks;
}

Admission Admit(const corev1::Pod& pod, const NodeOffer& node, const NodeUse& used) {
  return Admit(pod, UseOf(pod), node, used);
}

Admission Admit(const corev1::Pod& pod, const PodUse& use, const NodeOffer& node,
                const NodeUse& used) {
  const Case c{pod, use, node, used};
  for (const auto ask : {AskPressure, AskSysctls, AskClaims, AskOs, AskResources, AskAffinity,
                         AskPorts, AskTaints, AskAppArmor}) {
    if (Answer answer = ask(c)) return std::move(*answer);
  }
  return {};
}

}  // namespace holdfast::agent
