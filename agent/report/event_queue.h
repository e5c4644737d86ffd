// SPDX-License-Identifier: Apache-2.0
// EventQueue: events that wait to be sent to an API server. Of one event only its newest state waits, and nothing of it
// is given out while an earlier state is on its way. Not thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/events/event.h"

namespace holdfast::agent {

struct WaitingEvent {
  EventPtr event;
  bool create = true;  // the server has nothing of it yet
  int tries = 0;       // that failed
};

class EventQueue {
 public:
  explicit EventQueue(size_t capacity) : capacity_(capacity) {}

  // What is forgotten here stays at the server. False: there is no room, and it is dropped.
  bool Add(const EventChange& change);
  // The one that waits longest, which is on its way from now on.
  std::optional<WaitingEvent> Take();
  // It is no longer on its way.
  void Finish(const WaitingEvent& sent);
  // The same, and it is tried again, before all others.
  void PutBack(WaitingEvent failed);

 private:
  using Waiting = std::list<WaitingEvent>;

  const size_t capacity_;
  Waiting waiting_;  // longest first
  std::map<std::string, Waiting::iterator> by_name_;
  std::set<std::string> on_its_way_;
};

}  // namespace holdfast::agent
