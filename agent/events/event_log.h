// SPDX-License-Identifier: Apache-2.0
// EventLog: the newest events of this node, as core/v1 Events. The same event again raises its
// count; more than ten different messages of one kind in ten minutes become one combined event; an
// object that floods is held to a burst of 25 and one per five minutes. At most 1000 events, one
// hour. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/events/event.h"
#include "agent/kube/types_fwd.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

class EventLog {
 public:
  EventLog(std::string node_name, size_t capacity = 1000);

  // What changed in the list; empty when the spam filter swallowed the event. `next_version` gives
  // resource versions.
  std::vector<EventChange> Record(const EventSubject& subject, const EventNote& note, WallTime now,
                                  const std::function<uint64_t()>& next_version);
  std::vector<EventChange> Record(const corev1::Pod& pod, const EventNote& note, WallTime now,
                                  const std::function<uint64_t()>& next_version);

  std::vector<EventPtr> List() const;

 private:
  // Kept as bytes: as a message each would be some thirty blocks, and those of a burst of pods would lie all over the heap and keep
  // it from being given back.
  struct Kept {
    std::string key;
    std::string event;  // core/v1 Event
    WallTime changed;
  };
  struct Group {  // of one (object, type, reason)
    std::map<std::string, WallTime> messages;
    double tokens = 25;
    WallTime refilled_at;
  };

  bool Allowed(Group& group, WallTime now);
  std::shared_ptr<corev1::Event> MakeEvent(const EventSubject& subject, const EventNote& note,
                                           const std::string& message, WallTime now);
  void Expire(WallTime now, std::vector<EventChange>& changes);
  void ForgetOlderGroups();

  std::string node_name_;
  size_t capacity_;
  uint64_t serial_ = 0;
  std::list<Kept> events_;  // least recently changed first
  std::map<std::string_view, std::list<Kept>::iterator> by_key_;
  std::map<std::string, Group> groups_;
};

}  // namespace holdfast::agent
