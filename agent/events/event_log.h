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
#include <memory_resource>
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
  using Allocator = std::pmr::polymorphic_allocator<>;
  struct Kept {
    using allocator_type = Allocator;
    explicit Kept(Allocator of) : key(of), event(of) {}

    std::pmr::string key;
    std::pmr::string event;  // core/v1 Event as bytes: as a message it would be some thirty blocks
    WallTime changed;
  };
  struct Group {  // of one (object, type, reason)
    using allocator_type = Allocator;
    explicit Group(Allocator of) : messages(of) {}

    // By the messages' hashes: how many different ones there are is all that is asked.
    std::pmr::map<size_t, WallTime> messages;
    double tokens = 25;
    WallTime refilled_at;
  };

  Group& GroupOf(std::string_view key);
  bool Allowed(Group& group, WallTime now);
  std::shared_ptr<corev1::Event> MakeEvent(const EventSubject& subject, const EventNote& note,
                                           const std::string& message, WallTime now);
  void Expire(WallTime now, std::vector<EventChange>& changes);
  void ForgetOlderGroups();

  std::string node_name_;
  size_t capacity_;
  uint64_t serial_ = 0;
  // What is kept of a burst of pods for an hour lies together: among what the pods themselves had it would keep all of those pages
  // from being given back.
  std::pmr::unsynchronized_pool_resource memory_{{.max_blocks_per_chunk = 256},
                                                 std::pmr::new_delete_resource()};
  std::pmr::list<Kept> events_{&memory_};  // least recently changed first
  std::pmr::map<std::string_view, std::pmr::list<Kept>::iterator> by_key_{&memory_};
  std::pmr::map<std::pmr::string, Group, std::less<>> groups_{&memory_};
};

}  // namespace holdfast::agent
