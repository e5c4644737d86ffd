// SPDX-License-Identifier: Apache-2.0
#include "agent/source/source_faults.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

// A file may have thousands of faults, and thousands of objects.
constexpr size_t kMostLines = 20;
constexpr size_t kMostObjects = 20;
constexpr size_t kMostInCondition = 5;

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "web.yaml:7:5: spec.x: unknown field (and 2 more)".
std::string Summary(const SourceError& fault) {
  const std::vector<std::string_view> lines = Lines(fault.message);
  std::string text(lines.empty() ? "" : lines.front());
  if (lines.size() > 1) text += StrCat(" (and ", lines.size() - 1, " more)");
  return text;
}

std::string WithAdvice(const std::string& text, const SourceError& fault) {
  return fault.advice.empty() ? text : StrCat(text, "; ", fault.advice);
}

std::string Standing(const std::vector<SourceError>& faults) {
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kMostInCondition); ++i) {
    text += StrCat(i == 0 ? "" : ". ", WithAdvice(Summary(faults[i]), faults[i]));
  }
  if (faults.size() > kMostInCondition) {
    text += StrCat(". ", faults.size() - kMostInCondition, " more are in the log");
  }
  return text;
}

const auto& MetaOf(const DesiredPod& desired) { return desired.pod->metadata(); }
const auto& MetaOf(const DesiredService& desired) { return desired.object->metadata(); }

template <class Object>
void AddObjects(const std::vector<Object>& objects, const std::string& origin, const char* kind,
                const std::string& message, std::vector<FaultEvent>& events) {
  for (const Object& desired : objects) {
    if (*desired.origin != origin || events.size() >= kMostObjects) continue;
    const auto& meta = MetaOf(desired);
    events.push_back({kind, meta.namespace_(), meta.name(), meta.uid(), message});
  }
}

}  // namespace

void SourceFaults::Warn(const SourceError& fault) const {
  if (!callbacks_.warn) return;
  const std::vector<std::string_view> lines = Lines(fault.message);
  for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
    const bool last = i + 1 == std::min(lines.size(), kMostLines);
    std::string line(lines[i]);
    if (last && lines.size() > kMostLines) {
      line += StrCat(" (and ", lines.size() - kMostLines, " more)");
    }
    callbacks_.warn(last ? WithAdvice(line, fault) : line);
  }
}

// The node hears of everything; what still is as it was before the fault hears of its own file.
void SourceFaults::SendEvents(const PodSnapshot& snapshot, const SourceError& fault) const {
  if (!callbacks_.event) return;
  const std::string message = WithAdvice(Summary(fault), fault);
  std::vector<FaultEvent> events = {{"Node", "", node_name_, node_name_, message}};
  if (fault.last_good_runs) {
    AddObjects(snapshot.pods, fault.origin, "Pod", message, events);
    AddObjects(snapshot.services, fault.origin, "Service", message, events);
  }
  for (const FaultEvent& event : events) callbacks_.event(event);
}

void SourceFaults::Look(const PodSnapshot& snapshot, WallTime now) {
  const std::lock_guard lock(mutex_);
  if (!snapshot.complete || snapshot.generation <= generation_) return;
  generation_ = snapshot.generation;
  std::set<Key> present;
  std::set<std::string> faulty;
  for (const SourceError& fault : snapshot.errors) {
    Key key{fault.origin, fault.content, fault.message};
    faulty.insert(fault.origin);
    if (!told_.contains(key)) {
      Warn(fault);
      SendEvents(snapshot, fault);
    }
    present.insert(std::move(key));
  }
  std::set<std::string> healed;
  for (const Key& key : told_) {
    if (!faulty.contains(std::get<0>(key))) healed.insert(std::get<0>(key));
  }
  for (const std::string& origin : healed) {
    const std::string what = origin.empty() ? "the manifest directory" : origin;
    if (callbacks_.info) callbacks_.info(what + ": in order again, or gone");
  }
  if (told_.empty() != present.empty()) since_ = now;
  told_ = std::move(present);
  standing_ = Standing(snapshot.errors);
}

corev1::NodeCondition SourceFaults::Condition(WallTime now) const {
  const std::lock_guard lock(mutex_);
  const bool faulty = !told_.empty();
  corev1::NodeCondition condition;
  condition.set_type("ManifestProblem");
  condition.set_status(faulty ? "True" : "False");
  condition.set_reason(faulty ? "InvalidManifest" : "ManifestsAreValid");
  condition.set_message(faulty ? standing_ : "every manifest file is in force as it stands");
  kube::SetTime(now, condition.mutable_lastheartbeattime());
  kube::SetTime(since_, condition.mutable_lasttransitiontime());
  return condition;
}

}  // namespace holdfast::agent
