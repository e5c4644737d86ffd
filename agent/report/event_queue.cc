// SPDX-License-Identifier: Apache-2.0
#include "agent/report/event_queue.h"

#include <algorithm>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

std::string NameOf(const WaitingEvent& waiting) {
  const auto& meta = waiting.event->metadata();
  return StrCat(meta.namespace_(), "/", meta.name());
}

}  // namespace

bool EventQueue::Add(const EventChange& change) {
  if (change.type == ChangeType::kDeleted) return true;
  WaitingEvent added{change.event, change.type == ChangeType::kAdded};
  const std::string name = NameOf(added);
  if (const auto known = by_name_.find(name); known != by_name_.end()) {
    known->second->event = change.event;
    return true;
  }
  if (waiting_.size() >= capacity_) return false;
  by_name_[name] = waiting_.insert(waiting_.end(), std::move(added));
  return true;
}

std::optional<WaitingEvent> EventQueue::Take() {
  const auto free = std::find_if(waiting_.begin(), waiting_.end(), [this](const auto& waiting) {
    return !on_its_way_.contains(NameOf(waiting));
  });
  if (free == waiting_.end()) return std::nullopt;
  WaitingEvent taken = std::move(*free);
  waiting_.erase(free);
  const std::string name = NameOf(taken);
  by_name_.erase(name);
  on_its_way_.insert(name);
  return taken;
}

void EventQueue::Finish(const WaitingEvent& sent) { on_its_way_.erase(NameOf(sent)); }

void EventQueue::PutBack(WaitingEvent failed) {
  const std::string name = NameOf(failed);
  on_its_way_.erase(name);
  if (const auto newer = by_name_.find(name); newer != by_name_.end()) {
    failed.event = newer->second->event;
    waiting_.erase(newer->second);
  }
  by_name_[name] = waiting_.insert(waiting_.begin(), std::move(failed));
}

}  // namespace holdfast::agent
