// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/pod_target.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "agent/cli/lists.h"
#include "agent/cli/object.h"
#include "agent/cli/objects.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

// A kind that owns pods, and its words.
struct OwnerKind {
  std::string_view kind;
  std::string_view singular;
  std::string_view plural;
  std::string_view abbreviation;
  std::string_view group;    // "": the core
  std::string_view version;  // with the group, as kubectl prints it
};
constexpr std::array<OwnerKind, 6> kOwnerKinds = {
    {{"Deployment", "deployment", "deployments", "deploy", "apps", "apps/v1"},
     {"ReplicaSet", "replicaset", "replicasets", "rs", "apps", "apps/v1"},
     {"StatefulSet", "statefulset", "statefulsets", "sts", "apps", "apps/v1"},
     {"DaemonSet", "daemonset", "daemonsets", "ds", "apps", "apps/v1"},
     {"Job", "job", "jobs", "job", "batch", "batch/v1"},
     {"ReplicationController", "replicationcontroller", "replicationcontrollers", "rc", "",
      "/v1"}}};

// "deployment.apps" and "deployments.v1.apps" are "deployment".
const OwnerKind* FindOwnerKind(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('.'));
  const auto found = std::find_if(kOwnerKinds.begin(), kOwnerKinds.end(), [&](const auto& each) {
    return name == each.singular || name == each.plural || name == each.abbreviation;
  });
  if (found == kOwnerKinds.end()) return nullptr;
  const bool of_its_group = name.size() == word.size() || word.ends_with(StrCat(".", found->group));
  return of_its_group ? &*found : nullptr;
}

struct TypeAndName {
  std::string type;
  std::string name;
};
std::optional<TypeAndName> SplitTarget(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  return TypeAndName{text.substr(0, slash), text.substr(slash + 1)};
}

// As kubectl says it before why.
std::string Cannot(PodUse use, std::string_view type) {
  return StrCat(use == PodUse::kLogs ? "cannot get the logs from " : "cannot attach to ", type,
                ": ");
}

// Nothing: why was told.
std::optional<core::Pod> Choose(const std::vector<core::Pod>& pods, PodUse use,
                                const std::string& whose) {
  const core::Pod* best = BestPod(pods, use);
  if (best == nullptr) {
    return Told(Report(NotFound(whose + " has no pod on this node")));
  }
  if (use == PodUse::kLogs && pods.size() > 1) {
    std::fprintf(stderr, "Found %zu pods, using pod/%s\n", pods.size(),
                 best->metadata().name().c_str());
  }
  return *best;
}

std::optional<PodTarget> FindForService(Session& session, const std::string& name, PodUse use) {
  const std::string& name_space = session.options().name_space;
  const auto services = ListObjects(session, Resource::kServices, {name_space, ""});
  if (!services.status.ok()) return Told(Report(services.status));
  const auto picked = PickObjects(services.objects, Resource::kServices, {name_space, name});
  if (!picked) return Told(ReportPick(picked.error()));
  const auto& service = picked->front().As<core::Service>();
  if (service.spec().selector().empty()) {
    return Told(Report(InvalidArgument(StrCat(Cannot(use, "*v1.Service"), "invalid service '", name,
                                              "': Service is defined without a selector"))));
  }
  const auto pods = ListPods(session, name_space, SelectorOf(service));
  if (!pods.status.ok()) return Told(Report(pods.status));
  auto pod = Choose(pods.objects, use, StrCat("services \"", name, "\""));
  if (!pod) return std::nullopt;
  return PodTarget{std::move(*pod), service};
}

std::optional<PodTarget> FindForOwner(Session& session, const OwnerKind& owner,
                                      const std::string& name, PodUse use) {
  auto pods = ListPods(session, session.options().name_space);
  if (!pods.status.ok()) return Told(Report(pods.status));
  std::erase_if(pods.objects,
                [&](const core::Pod& pod) { return !IsOwnedBy(pod, owner.kind, name); });
  const std::string group = owner.group.empty() ? "" : StrCat(".", owner.group);
  auto pod = Choose(pods.objects, use, StrCat(owner.plural, group, " \"", name, "\""));
  if (!pod) return std::nullopt;
  return PodTarget{std::move(*pod)};
}

}  // namespace

std::optional<PodTarget> FindPodTarget(Session& session, const std::string& text, PodUse use) {
  if (const auto named = SplitTarget(text)) {
    if (FindResource(named->type) == Resource::kServices) {
      return FindForService(session, named->name, use);
    }
    if (const OwnerKind* owner = FindOwnerKind(named->type)) {
      return FindForOwner(session, *owner, named->name, use);
    }
  }
  auto pod = FindPod(session, text);
  if (!pod) return std::nullopt;
  return PodTarget{std::move(*pod)};
}

std::optional<std::string> KindOfTarget(const std::string& text) {
  const auto named = SplitTarget(text);
  if (!named) return std::nullopt;
  if (FindResource(named->type) == Resource::kServices) return "/v1, Kind=Service";
  const OwnerKind* owner = FindOwnerKind(named->type);
  if (owner == nullptr) return std::nullopt;
  return StrCat(owner->version, ", Kind=", owner->kind);
}

}  // namespace holdfast::agent::cli
