// SPDX-License-Identifier: Apache-2.0
// EventSink: takes what happened; it is counted, combined and shown behind it. Thread-safe.
#pragma once

#include "agent/events/event.h"

namespace holdfast::agent {

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void AddEvent(const EventSubject& subject, const EventNote& note) = 0;
};

}  // namespace holdfast::agent
