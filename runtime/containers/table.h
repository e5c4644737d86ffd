// SPDX-License-Identifier: Apache-2.0
// ContainerTable: what this process knows of the started containers, a cache of the records and of
// the kernel. Thread-safe; values are handed out as copies.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/model/exit_report.h"
#include "holdfast/sys/readable.h"
#include "runtime/keeper/client/client.h"
#include "runtime/state/records.h"

namespace holdfast::runtime {

struct TableEntry {
  ContainerId id;
  ContainerBrief brief;
  keeper::StartRecord start;
  // Shared with the watcher's epoll set and with calls in flight, so that a removal does not close
  // it under them. Null once the end is known, or when the process was gone before we looked.
  std::shared_ptr<const PidFd> process;
  std::optional<model::ExitReport> exit;
};

// By the kernel's word, however soon after the end.
inline bool HasEnded(const TableEntry& entry) {
  return !entry.process || sys::IsReadable(entry.process->get());
}

class ContainerTable {
 public:
  // Replaces an entry of the same id, which is of the same pod.
  void Put(TableEntry entry) {
    const std::lock_guard lock(mutex_);
    of_pod_[entry.brief.pod_uid].insert(entry.id);
    ContainerId id = entry.id;
    entries_.insert_or_assign(std::move(id), std::move(entry));
  }
  std::optional<TableEntry> Find(const ContainerId& id) const {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) return std::nullopt;
    return it->second;
  }
  // The first report stays; false when there was one, or no such entry.
  bool SetExit(const ContainerId& id, const model::ExitReport& report) {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second.exit) return false;
    it->second.exit = report;
    it->second.process.reset();
    return true;
  }
  void Erase(const ContainerId& id) {
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end()) return;
    const auto pod = of_pod_.find(it->second.brief.pod_uid);
    pod->second.erase(id);
    if (pod->second.empty()) of_pod_.erase(pod);
    entries_.erase(it);
  }
  // Sorted by id, as List().
  std::vector<TableEntry> OfPod(const PodUid& uid) const {
    const std::lock_guard lock(mutex_);
    std::vector<TableEntry> all;
    const auto pod = of_pod_.find(uid);
    if (pod == of_pod_.end()) return all;
    for (const ContainerId& id : pod->second) all.push_back(entries_.at(id));
    return all;
  }
  std::vector<TableEntry> List() const {
    const std::lock_guard lock(mutex_);
    std::vector<TableEntry> all;
    all.reserve(entries_.size());
    for (const auto& [id, entry] : entries_) all.push_back(entry);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<ContainerId, TableEntry> entries_;
  std::map<PodUid, std::set<ContainerId>> of_pod_;
};

}  // namespace holdfast::runtime
