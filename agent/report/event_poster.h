// SPDX-License-Identifier: Apache-2.0
// EventPoster: carries what the view tells of events to an API server, as core/v1 Events: made when they are new,
// patched when they are counted up. Events come last: they begin a tenth of a second late, two requests at once, a thousand
// wait, more are dropped. Nothing here blocks, least of all who makes an event. Source: control-plane.md 5.9; join.md, trap 50.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/view/pod_view.h"

namespace holdfast::agent {

struct EventPosterOptions {
  // Whether something more important waits to be sent: events wait for it for a second. {}: never.
  std::function<bool()> busy;
  std::function<void(const std::string& line)> log;  // on the API thread
};

class EventPoster {
 public:
  // Begins with the events that are there. `api` and `view` are borrowed.
  EventPoster(Api& api, PodView& view, EventPosterOptions options);
  // On the API thread, or after it ended. What waits is not sent.
  ~EventPoster();
  EventPoster(const EventPoster&) = delete;
  EventPoster& operator=(const EventPoster&) = delete;

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;  // shared with what the API thread runs of it
  std::unique_ptr<Subscription> subscription_;
};

}  // namespace holdfast::agent
