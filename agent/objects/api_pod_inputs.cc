// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/api_pod_inputs.h"

#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "agent/objects/object_kinds.h"
#include "agent/objects/object_store.h"
#include "agent/objects/references.h"
#include "agent/objects/token_store.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// What a downwardAPI volume shows of a pod that may change.
bool ShowsTheSame(const corev1::Pod& a, const corev1::Pod& b) {
  const auto same = [](const auto& x, const auto& y) {
    if (x.size() != y.size()) return false;
    for (const auto& [key, value] : x) {
      const auto other = y.find(key);
      if (other == y.end() || other->second != value) return false;
    }
    return true;
  };
  return same(a.metadata().labels(), b.metadata().labels()) &&
         same(a.metadata().annotations(), b.metadata().annotations());
}

}  // namespace

class ApiPodInputs::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Api& api, const Clock& clock, ApiPodInputsOptions options)
      : options_(std::move(options)),
        api_(api),
        objects_(api, options_.most_watches,
                 [this](const PodUid& uid, const ObjectRef& ref, ObjectInput input) {
                   Show(uid, &Known::objects, ref, std::move(input));
                 }),
        tokens_(api, clock, [this](const PodUid& uid, const TokenRef& ref, TokenInput input) {
          Show(uid, &Known::tokens, ref, std::move(input));
        }) {}

  void Acquire(std::shared_ptr<const corev1::Pod> pod) {
    const PodUid uid(pod->metadata().uid());
    {
      const std::lock_guard lock(mutex_);
      Known& known = pods_[uid];
      if (known.version == 0) known.version = 1;
      if (known.pod && !ShowsTheSame(*known.pod, *pod)) ++known.version;
      known.pod = pod;
      known.references = known.Refer();
    }
    OnApiThread([uid](Core& self) { self.Use(uid); });
  }

  void Release(const PodUid& uid) {
    {
      const std::lock_guard lock(mutex_);
      if (pods_.erase(uid) == 0) return;
    }
    OnApiThread([uid](Core& self) { self.Use(uid); });
  }

  void Refresh(const PodUid& uid) {
    OnApiThread([uid](Core& self) { self.objects_.Refresh(uid); });
  }

  ObjectInput Object(const PodUid& uid, const ObjectRef& ref) const {
    return Find(uid, &Known::objects, ref);
  }
  TokenInput Token(const PodUid& uid, const TokenRef& ref) const {
    return Find(uid, &Known::tokens, ref);
  }
  std::optional<std::vector<std::string>> ServiceVariables(const std::string& ns,
                                                           bool links) const {
    return options_.service_variables ? options_.service_variables(ns, links) : std::nullopt;
  }
  uint64_t VersionOf(const PodUid& uid) const {
    const std::lock_guard lock(mutex_);
    const auto found = pods_.find(uid);
    return found == pods_.end() ? 0 : found->second.version;
  }
  void SetListener(std::function<void(const PodUid&)> changed) {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(changed);
  }
  // All pods: it happens once.
  void ServicesKnown() {
    std::vector<PodUid> pods;
    std::function<void(const PodUid&)> listener;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [uid, known] : pods_) pods.push_back(uid);
      listener = listener_;
    }
    if (!listener) return;
    for (const PodUid& uid : pods) listener(uid);
  }

 private:
  struct Known {
    std::shared_ptr<const corev1::Pod> pod;
    PodReferences references;
    std::map<ObjectRef, ObjectInput> objects;
    std::map<TokenRef, TokenInput> tokens;
    uint64_t version = 0;

    PodReferences Refer() const {
      return ReferencesOf(*pod, [this](const ObjectRef& ref) {
        const auto found = objects.find(ref);
        return found == objects.end() ? nullptr : found->second.data;
      });
    }
  };

  void OnApiThread(std::function<void(Core&)> work) {
    api_.Post([weak = weak_from_this(), work = std::move(work)] {
      if (const auto self = weak.lock()) work(*self);
    });
  }

  // As often as a kubelet looks at a pod.
  void AskAgainAfter(const PodUid& uid) {
    constexpr std::chrono::seconds kLeast{60};
    const auto more = std::uniform_int_distribution<int>(0, 30'000)(random_);
    again_[uid] =
        api_.After(kLeast + std::chrono::milliseconds(more), [this, uid] { OnAskAgain(uid); });
  }

  void OnAskAgain(const PodUid& uid) {
    std::function<void(const PodUid&)> listener;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pods_.find(uid);
      if (found == pods_.end()) return;
      ++found->second.version;
      listener = listener_;
    }
    AskAgainAfter(uid);
    if (listener) listener(uid);
  }

  // The newest that is known of the pod, whatever it was when this was posted.
  void Use(const PodUid& uid) {
    PodReferences references;
    TokenOwner owner;
    owner.pod_uid = uid;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = pods_.find(uid); found != pods_.end()) {
        references = found->second.references;
        owner = TokenOwnerOf(*found->second.pod);
      }
    }
    tokens_.Use(owner, references.tokens);
    objects_.Use(uid, references.objects);
    if (!references.revisited) {
      again_.erase(uid);
    } else if (!again_.contains(uid)) {
      AskAgainAfter(uid);
    }
  }

  bool IsInVolume(const Known& known, const ObjectRef& ref) const {
    const auto use = known.references.objects.find(ref);
    return use != known.references.objects.end() && use->second.in_volume;
  }
  bool IsInVolume(const Known& /*known*/, const TokenRef& /*ref*/) const { return true; }

  // Whether what is known of it may name further objects (references.h).
  static bool Leads(const TokenRef& /*ref*/) { return false; }
  static bool Leads(const ObjectRef& ref) { return RowOf(ref.kind).leads; }

  template <class Ref, class Input>
  void Show(const PodUid& uid, std::map<Ref, Input> Known::* inputs, const Ref& ref, Input input) {
    std::function<void(const PodUid&)> listener;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pods_.find(uid);
      if (found == pods_.end()) return;
      Input& shown = (found->second.*inputs)[ref];
      if (shown == input) return;
      shown = std::move(input);
      if (IsInVolume(found->second, ref)) ++found->second.version;
      listener = listener_;
      if (Leads(ref)) UseWhatFollows(uid, found->second);
    }
    if (listener) listener(uid);
  }

  // What a claim is bound to is asked for when the claim says so. Not at once: the store is telling.
  void UseWhatFollows(const PodUid& uid, Known& known) {
    PodReferences references = known.Refer();
    if (references == known.references) return;
    known.references = std::move(references);
    OnApiThread([uid](Core& self) { self.Use(uid); });
  }

  template <class Ref, class Input>
  Input Find(const PodUid& uid, std::map<Ref, Input> Known::* inputs, const Ref& ref) const {
    const std::lock_guard lock(mutex_);
    const auto found = pods_.find(uid);
    if (found == pods_.end()) return {};
    const auto input = (found->second.*inputs).find(ref);
    return input == (found->second.*inputs).end() ? Input() : input->second;
  }

  const ApiPodInputsOptions options_;
  Api& api_;
  mutable std::mutex mutex_;
  std::map<PodUid, Known> pods_;
  std::function<void(const PodUid&)> listener_;
  // The API thread's.
  ObjectStore objects_;
  TokenStore tokens_;
  std::map<PodUid, TicketPtr> again_;  // of pods whose volumes are revisited
  std::minstd_rand random_{std::random_device()()};
};

ApiPodInputs::ApiPodInputs(Api& api, const Clock& clock, ApiPodInputsOptions options)
    : core_(std::make_shared<Core>(api, clock, std::move(options))) {}
ApiPodInputs::~ApiPodInputs() = default;

void ApiPodInputs::Acquire(std::shared_ptr<const corev1::Pod> pod) {
  core_->Acquire(std::move(pod));
}
void ApiPodInputs::Release(const PodUid& uid) { core_->Release(uid); }
void ApiPodInputs::Refresh(const PodUid& uid) { core_->Refresh(uid); }
ObjectInput ApiPodInputs::Object(const PodUid& uid, const ObjectRef& ref) const {
  return core_->Object(uid, ref);
}
TokenInput ApiPodInputs::Token(const PodUid& uid, const std::string& audience,
                               std::chrono::seconds life) const {
  return core_->Token(uid, {audience, life});
}
std::optional<std::vector<std::string>> ApiPodInputs::ServiceVariables(const PodUid& /*uid*/,
                                                                       const std::string& ns,
                                                                       bool links) const {
  return core_->ServiceVariables(ns, links);
}
uint64_t ApiPodInputs::VersionOf(const PodUid& uid) const { return core_->VersionOf(uid); }
void ApiPodInputs::SetListener(std::function<void(const PodUid&)> changed) {
  core_->SetListener(std::move(changed));
}
void ApiPodInputs::ServicesKnown() { core_->ServicesKnown(); }

}  // namespace holdfast::agent
