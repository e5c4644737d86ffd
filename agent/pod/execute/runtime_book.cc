// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/execute/runtime_book.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {

Result<RuntimeBook::Refreshed> RuntimeBook::Refresh(ContainerRuntime& runtime) {
  uint64_t asked_at = 0;
  {
    const std::lock_guard lock(mutex_);
    asked_at = writes_;
  }
  ASSIGN_OR_RETURN(const auto containers, runtime.ListContainers());
  ASSIGN_OR_RETURN(const auto sandboxes, runtime.ListSandboxes());
  std::map<PodUid, Page> fresh;
  for (const ObservedContainer& c : containers) fresh[c.pod_uid].containers.push_back(c);
  for (const ObservedSandbox& s : sandboxes) fresh[s.uid].sandbox = {true, s.ready};
  for (auto& [uid, page] : fresh) {
    std::sort(page.containers.begin(), page.containers.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  const std::lock_guard lock(mutex_);
  Refreshed result;
  for (const auto& [uid, page] : pages_) fresh.try_emplace(uid);
  for (auto& [uid, page] : fresh) {
    Page& known = pages_[uid];
    if (known.written > asked_at) {
      result.again = true;
      continue;
    }
    if (known.SameFacts(page)) continue;
    page.written = known.written;
    known = std::move(page);
    result.changed.push_back(uid);
  }
  std::erase_if(pages_, [](const auto& p) { return p.second.IsEmpty(); });
  return result;
}

std::vector<ObservedContainer> RuntimeBook::Containers(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto it = pages_.find(uid);
  return it == pages_.end() ? std::vector<ObservedContainer>() : it->second.containers;
}

RuntimeBook::Sandbox RuntimeBook::SandboxOf(const PodUid& uid) const {
  const std::lock_guard lock(mutex_);
  const auto it = pages_.find(uid);
  return it == pages_.end() ? Sandbox{} : it->second.sandbox;
}

std::set<PodUid> RuntimeBook::Pods() const {
  const std::lock_guard lock(mutex_);
  std::set<PodUid> out;
  for (const auto& [uid, page] : pages_) out.insert(uid);
  return out;
}

void RuntimeBook::Started(const ObservedContainer& container) {
  const std::lock_guard lock(mutex_);
  Page& page = pages_[container.pod_uid];
  page.written = ++writes_;
  std::erase_if(page.containers, [&](const auto& c) { return c.id == container.id; });
  const auto at = std::find_if(page.containers.begin(), page.containers.end(),
                               [&](const auto& c) { return container.id < c.id; });
  page.containers.insert(at, container);
}

void RuntimeBook::Removed(const PodUid& uid, const ContainerId& id) {
  const std::lock_guard lock(mutex_);
  Page& page = pages_[uid];
  page.written = ++writes_;
  std::erase_if(page.containers, [&](const auto& c) { return c.id == id; });
}

void RuntimeBook::SandboxMade(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  Page& page = pages_[uid];
  page.written = ++writes_;
  page.sandbox = {true, true};
}

void RuntimeBook::SandboxRemoved(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  Page& page = pages_[uid];
  page.written = ++writes_;
  page.sandbox = {};
}

}  // namespace holdfast::agent
