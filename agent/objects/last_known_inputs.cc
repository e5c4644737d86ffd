// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/last_known_inputs.h"

#include <utility>

#include "agent/objects/references.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

LastKnownInputs::LastKnownInputs(PodInputs& inputs, const Clock& clock, Read read,
                                 std::function<bool()> heard,
                                 std::function<void(const std::string&)> log)
    : inputs_(inputs),
      clock_(clock),
      read_(std::move(read)),
      heard_(std::move(heard)),
      log_(std::move(log)) {}

void LastKnownInputs::Acquire(std::shared_ptr<const corev1::Pod> pod) {
  const auto& spec = pod->spec();
  Entry entry;
  entry.of_namespace = pod->metadata().namespace_();
  entry.links = !spec.has_enableservicelinks() || spec.enableservicelinks();
  entry.since = clock_.Boot();
  {
    const std::lock_guard lock(mutex_);
    entries_.try_emplace(PodUid(pod->metadata().uid()), std::move(entry));
  }
  inputs_.Acquire(std::move(pod));
}

void LastKnownInputs::Release(const PodUid& uid) {
  {
    const std::lock_guard lock(mutex_);
    entries_.erase(uid);
  }
  inputs_.Release(uid);
}

ObjectInput LastKnownInputs::Object(const PodUid& uid, const ObjectRef& ref) const {
  ObjectInput input = inputs_.Object(uid, ref);
  const std::lock_guard lock(mutex_);
  bool soon = false;
  const KeptInputs* const kept = StandIn(uid, input.state, soon);
  if (soon) return {};
  if (kept == nullptr) return input;
  if (const auto data = kept->objects.find(ref); data != kept->objects.end()) {
    return {InputState::kPresent, data->second, "", true};
  }
  if (kept->absent.contains(ref)) return {InputState::kAbsent, nullptr, NotFoundText(ref), true};
  return input;
}

TokenInput LastKnownInputs::Token(const PodUid& uid, const std::string& audience,
                                  std::chrono::seconds life) const {
  TokenInput input = inputs_.Token(uid, audience, life);
  const std::lock_guard lock(mutex_);
  bool soon = false;
  const KeptInputs* const kept = StandIn(uid, input.state, soon);
  if (soon) return {};
  if (kept == nullptr) return input;
  return {InputState::kAbsent, nullptr, "tokens are not kept on the disk"};
}

// Those of any pod of the namespace.
std::optional<std::vector<std::string>> LastKnownInputs::ServiceVariables(const PodUid& of,
                                                                          const std::string& ns,
                                                                          bool links) const {
  auto variables = inputs_.ServiceVariables(of, ns, links);
  if (variables || heard_()) return variables;
  const std::lock_guard lock(mutex_);
  for (auto& [uid, entry] : entries_) {
    if (entry.of_namespace != ns || entry.links != links || !IsOverdue(entry)) continue;
    const KeptInputs* const kept = KeptOf(uid, entry);
    if (kept != nullptr && kept->variables) return kept->variables;
  }
  return std::nullopt;
}

const KeptInputs* LastKnownInputs::StandIn(const PodUid& uid, InputState state, bool& soon) const {
  if (state == InputState::kPresent || state == InputState::kAbsent || heard_()) return nullptr;
  const auto entry = entries_.find(uid);
  if (entry == entries_.end()) return nullptr;
  const KeptInputs* const kept = KeptOf(uid, entry->second);
  soon = kept != nullptr && !IsOverdue(entry->second);
  return kept;
}

const KeptInputs* LastKnownInputs::KeptOf(const PodUid& uid, Entry& entry) const {
  if (!std::exchange(entry.read, true)) {
    const auto text = read_(uid);
    auto kept = text ? DecodeKept(*text) : Result<KeptInputs>(text.error());
    if (kept) {
      entry.kept = std::move(*kept);
    } else if (kept.error().code() != Code::kNotFound) {
      log_(StrCat("pod ", uid.value, ": ", kept.error().message(), ", ignoring"));
    }
  }
  return entry.kept ? &*entry.kept : nullptr;
}

}  // namespace holdfast::agent
