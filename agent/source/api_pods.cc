// SPDX-License-Identifier: Apache-2.0
#include "agent/source/api_pods.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/pod_identity.h"
#include "agent/source/object_name.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

constexpr size_t kLongestUid = 64;
constexpr size_t kLongestLabel = 63;
constexpr std::chrono::seconds kGrace{30};

// What a directory may be called, and no more than names of Kubernetes have.
bool IsPlain(std::string_view name, size_t longest) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= longest && alphanumeric(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return alphanumeric(c) || c == '-' || c == '.'; });
}

template <class Named>
bool ArePlain(const Named& list) {
  return std::ranges::all_of(list,
                             [](const auto& one) { return IsPlain(one.name(), kLongestLabel); });
}

// "" when every name that becomes a directory's may be one.
std::string WrongName(const corev1::Pod& pod) {
  const auto& meta = pod.metadata();
  const auto& spec = pod.spec();
  if (!IsPlain(meta.uid(), kLongestUid)) return "uid";
  if (!IsPlain(meta.namespace_(), kLongestLabel)) return "namespace";
  if (!IsPlain(meta.name(), kLongestName)) return "name";
  if (!ArePlain(spec.initcontainers()) || !ArePlain(spec.containers())) return "container's name";
  if (!ArePlain(spec.volumes())) return "volume's name";
  return "";
}

// When the server wants it gone, it wants that now: the time stamp is when it will be too late.
std::optional<std::chrono::seconds> Deletion(const corev1::Pod& pod) {
  const auto& meta = pod.metadata();
  if (!meta.has_deletiontimestamp()) return std::nullopt;
  if (meta.has_deletiongraceperiodseconds()) {
    return std::chrono::seconds(std::max<int64_t>(meta.deletiongraceperiodseconds(), 0));
  }
  if (pod.spec().has_terminationgraceperiodseconds()) {
    return std::chrono::seconds(pod.spec().terminationgraceperiodseconds());
  }
  return kGrace;
}

}  // namespace

ReflectorOptions PodsOfNode(const std::string& node_name) {
  return {.path = "/api/v1/pods",
          .selectors = StrCat("fieldSelector=spec.nodeName%3D", node_name),
          .type = {"v1", "Pod"},
          .lane = ApiLane::kPods};
}

ApiPods::ApiPods(PodRegistry& registry, ApiPodsCallbacks callbacks)
    : registry_(registry), callbacks_(std::move(callbacks)) {}

void ApiPods::ListBegins() {
  refused_.clear();
  if (callbacks_.mirrors != nullptr) callbacks_.mirrors->ListBegins();
}

void ApiPods::Put(kube::ObjectPtr object) {
  if (const auto* mirror = dynamic_cast<const corev1::Pod*>(object.get());
      mirror != nullptr && IsMirror(*mirror)) {
    if (callbacks_.mirrors != nullptr) callbacks_.mirrors->Put(std::move(object));
    return;
  }
  auto pod = std::dynamic_pointer_cast<const corev1::Pod>(
      std::shared_ptr<const google::protobuf::Message>(std::move(object)));
  if (pod == nullptr || !MayRun(*pod)) return;
  const PodUid uid(pod->metadata().uid());
  const std::string name = FullName(*pod);
  // A successor of the same name: the former one is gone, whether or not that is ever said.
  if (const auto former = uids_.find(name); former != uids_.end() && former->second != uid) {
    Drop(PodUid(former->second));
  }
  names_[uid] = name;
  uids_[name] = uid;
  auto deletion = Deletion(*pod);
  if (auto set = registry_.Set({std::move(pod), PodOrigin::kApi, deletion}); !set) {
    callbacks_.log(StrCat(set.error().message(), ", it is not run"));
  }
  if (callbacks_.seen) callbacks_.seen(uid);
}

void ApiPods::Gone(kube::ObjectPtr last) {
  const auto* const pod = dynamic_cast<const corev1::Pod*>(last.get());
  if (pod == nullptr) return;
  const PodUid uid(pod->metadata().uid());
  refused_.erase(uid);
  Drop(uid);
  if (callbacks_.mirrors != nullptr) callbacks_.mirrors->Gone(std::move(last));
}

// What is no longer there was told before.
void ApiPods::ListEnds() {
  trouble_.clear();
  registry_.Complete(PodOrigin::kApi);
  if (callbacks_.mirrors != nullptr) callbacks_.mirrors->ListEnds();
  if (callbacks_.listed) callbacks_.listed();
}

void ApiPods::Trouble(const Error& error) {
  if (std::exchange(trouble_, error.message()) == error.message()) return;
  callbacks_.log(StrCat("pods of the API server: ", error.message(), ", trying again"));
}

// The image of a pod that runs here already. What runs stays what it is, whatever somebody writes into its annotations.
bool ApiPods::IsMirror(const corev1::Pod& pod) const {
  return pod.metadata().annotations().contains(kube::kConfigMirrorAnnotation) &&
         !names_.contains(PodUid(pod.metadata().uid()));
}

bool ApiPods::MayRun(const corev1::Pod& pod) {
  const PodUid uid(pod.metadata().uid());
  if (names_.contains(uid)) return true;
  const std::string wrong = WrongName(pod);
  if (wrong.empty()) return true;
  if (refused_.insert(uid).second) {
    callbacks_.log(StrCat("pod ", Printable(FullName(pod)), ": its ", wrong,
                          " cannot name a directory, it is not run"));
  }
  return false;
}

void ApiPods::Drop(const PodUid& uid) {
  const auto known = names_.find(uid);
  if (known == names_.end()) return;
  const auto named = uids_.find(known->second);
  if (named != uids_.end() && named->second == uid) uids_.erase(named);
  names_.erase(known);
  registry_.Remove(PodOrigin::kApi, uid);
  if (callbacks_.seen) callbacks_.seen(uid);
}

}  // namespace holdfast::agent
