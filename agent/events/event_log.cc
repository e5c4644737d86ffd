// SPDX-License-Identifier: Apache-2.0
#include "agent/events/event_log.h"

#include <algorithm>
#include <utility>

#include "agent/kube/times.h"
#include "agent/kube/utf8.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::minutes kCombineWindow{10};
constexpr size_t kCombineAbove = 10;
constexpr double kBurst = 25;
constexpr std::chrono::minutes kRefill{5};
constexpr std::chrono::hours kKeep{1};
constexpr size_t kMessageLimit = 1024;
constexpr size_t kMaxGroups = 4096;

// Names of files and what a kernel says may hold any bytes.
std::string ShortMessage(const std::string& message) {
  return kube::CutUtf8(kube::ReplaceInvalidUtf8(message), kMessageLimit);
}

// It was written by us, so it can be read.
std::shared_ptr<corev1::Event> ReadEvent(std::string_view bytes) {
  auto event = std::make_shared<corev1::Event>();
  (void)event->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  return event;
}

std::string FieldPath(const EventNote& note) {
  if (note.container.empty()) return "";
  const char* const list = note.init        ? "spec.initContainers{"
                           : note.ephemeral ? "spec.ephemeralContainers{"
                                            : "spec.containers{";
  return StrCat(list, note.container, "}");
}

std::string Hex(int64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (auto v = static_cast<uint64_t>(value); v != 0; v >>= 4) out.push_back(kDigits[v & 15]);
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

EventLog::EventLog(std::string node_name, size_t capacity)
    : node_name_(std::move(node_name)), capacity_(capacity) {}

EventLog::Group& EventLog::GroupOf(std::string_view key) {
  const auto known = groups_.find(key);
  return known != groups_.end()
             ? known->second
             : groups_.try_emplace(std::pmr::string(key, &memory_)).first->second;
}

bool EventLog::Allowed(Group& group, WallTime now) {
  if (!group.refilled_at.IsZero()) {
    const double minutes =
        std::chrono::duration<double, std::ratio<60>>(now - group.refilled_at).count();
    group.tokens = std::min(kBurst, group.tokens + std::max(0.0, minutes) / kRefill.count());
  }
  group.refilled_at = now;
  if (group.tokens < 1) return false;
  group.tokens -= 1;
  return true;
}

std::shared_ptr<corev1::Event> EventLog::MakeEvent(const EventSubject& subject,
                                                   const EventNote& note,
                                                   const std::string& message, WallTime now) {
  auto event = std::make_shared<corev1::Event>();
  event->mutable_metadata()->set_name(
      StrCat(subject.name, ".", Hex(now.since_epoch.count() + static_cast<int64_t>(serial_++))));
  // Events of what has no namespace, a node, lie where Kubernetes puts them.
  event->mutable_metadata()->set_namespace_(
      subject.object_namespace.empty() ? "default" : subject.object_namespace);
  kube::SetTime(now, event->mutable_metadata()->mutable_creationtimestamp());
  event->mutable_metadata()->mutable_annotations()->insert(note.annotations.begin(),
                                                           note.annotations.end());
  auto* object = event->mutable_involvedobject();
  object->set_kind(subject.kind);
  object->set_namespace_(subject.object_namespace);
  object->set_name(subject.name);
  object->set_uid(subject.uid);
  object->set_apiversion("v1");
  if (const std::string path = FieldPath(note); !path.empty()) object->set_fieldpath(path);
  event->set_reason(note.reason);
  event->set_message(ShortMessage(message));
  event->mutable_source()->set_component(subject.component);
  event->mutable_source()->set_host(node_name_);
  kube::SetTime(now, event->mutable_firsttimestamp());
  kube::SetTime(now, event->mutable_lasttimestamp());
  event->set_count(1);
  event->set_type(note.warning ? "Warning" : "Normal");
  event->set_reportingcomponent(subject.component);
  event->set_reportinginstance(node_name_);
  return event;
}

void EventLog::Expire(WallTime now, std::vector<EventChange>& changes) {
  while (!events_.empty() &&
         (events_.size() > capacity_ || now - events_.front().changed > kKeep)) {
    changes.push_back({ChangeType::kDeleted, ReadEvent(events_.front().event)});
    by_key_.erase(events_.front().key);
    events_.pop_front();
  }
  if (groups_.size() > kMaxGroups) ForgetOlderGroups();
}

// Groups are small, but there is one per pod and reason that ever was. Half of them at a time, so that an event's cost does not
// grow with the pods that came before it.
void EventLog::ForgetOlderGroups() {
  std::vector<WallTime> last;
  for (const auto& [key, group] : groups_) last.push_back(group.refilled_at);
  const auto middle = last.begin() + static_cast<std::ptrdiff_t>(last.size() / 2);
  std::ranges::nth_element(last, middle);
  std::erase_if(groups_, [&](const auto& g) { return g.second.refilled_at <= *middle; });
}

std::vector<EventChange> EventLog::Record(const corev1::Pod& pod, const EventNote& note,
                                          WallTime now,
                                          const std::function<uint64_t()>& next_version) {
  const auto& meta = pod.metadata();
  return Record({"Pod", meta.namespace_(), meta.name(), meta.uid(), "kubelet"}, note, now,
                next_version);
}

std::vector<EventChange> EventLog::Record(const EventSubject& subject, const EventNote& note,
                                          WallTime now,
                                          const std::function<uint64_t()>& next_version) {
  std::vector<EventChange> changes;
  const std::string group_key =
      StrCat(subject.kind, "/", subject.object_namespace, "/", subject.name, "/", subject.uid, "\n",
             note.warning ? "W" : "N", "\n", note.reason);
  Group& group = GroupOf(group_key);
  if (!Allowed(group, now)) return changes;

  std::erase_if(group.messages, [&](const auto& m) { return now - m.second > kCombineWindow; });
  group.messages[std::hash<std::string>()(note.message)] = now;
  const bool combine = group.messages.size() > kCombineAbove;
  const std::string key = StrCat(group_key, "\n", combine ? "" : FieldPath(note), "\n",
                                 combine ? "combined" : note.message);
  const std::string message =
      combine ? StrCat("(combined from similar events): ", note.message) : note.message;

  std::shared_ptr<corev1::Event> event;
  const auto known = by_key_.find(key);
  const bool is_new = known == by_key_.end();
  if (is_new) {
    event = MakeEvent(subject, note, message, now);
  } else {
    event = ReadEvent(known->second->event);
    event->set_count(event->count() + 1);
    event->set_message(ShortMessage(message));
    kube::SetTime(now, event->mutable_lasttimestamp());
    events_.splice(events_.end(), events_, known->second);
  }
  event->mutable_metadata()->set_resourceversion(std::to_string(next_version()));
  if (is_new) {
    events_.emplace_back().key = key;
    by_key_.emplace(events_.back().key, std::prev(events_.end()));
  }
  events_.back().event = event->SerializeAsString();
  events_.back().changed = now;
  changes.push_back({is_new ? ChangeType::kAdded : ChangeType::kModified, event});
  Expire(now, changes);
  return changes;
}

std::vector<EventPtr> EventLog::List() const {
  std::vector<EventPtr> out;
  for (const Kept& kept : events_) out.push_back(ReadEvent(kept.event));
  std::stable_sort(out.begin(), out.end(), [](const EventPtr& a, const EventPtr& b) {
    return a->metadata().namespace_() < b->metadata().namespace_();
  });
  return out;
}

}  // namespace holdfast::agent
