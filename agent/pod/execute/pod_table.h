// SPDX-License-Identifier: Apache-2.0
// PodTable: all pods of the node. Follows the source, gives each pod to a worker when something may
// have changed, and wakes it when it asked for that.
//
// One io_context, run by one thread, is the strand that owns the table; workers run on a bounded
// pool, one at a time per pod, and post back. The public functions may be called from any thread.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/worker_pool.h"
#include "agent/pod/execute/pod_worker.h"
#include "agent/source/pod_source.h"

namespace holdfast::agent {

struct PodTableOptions {
  size_t workers = 8;
  std::chrono::seconds resync{60};
  // A step that takes longer is reported and no longer counts against `workers`.
  std::chrono::seconds step_deadline{123};
};

class PodTable {
 public:
  PodTable(boost::asio::io_context& io, PodServices& services, PodSource& source,
           PodTableOptions options);
  // The io_context no longer runs. Waits for running workers; pods stay as they are.
  ~PodTable();

  // Reads the records, asks the runtime what runs, takes that over and begins to follow the source.
  // When it returns the view shows every pod that it took over. Before the io_context runs.
  Result<void> Recover();

  // Something that pods wait for may be there now (an image was imported).
  void PokeAll();
  // The grace period of a pod whose manifest is about to be removed, or that is ending already.
  void SetDeletionGrace(const PodUid& uid, std::chrono::seconds grace);
  // Pods that are wanted or still ending.
  std::vector<PodUid> Live() const;
  // Whether the strand turned within the last resync periods.
  bool IsHealthy() const;

 private:
  struct Entry {
    std::unique_ptr<PodWorker> worker;
    std::optional<std::chrono::seconds> deletion_grace;
    bool busy = false;
    bool dirty = false;
    std::optional<BootTime> wake_at;
    WorkerPool::JobId job = 0;
    BootTime busy_since;
    bool overdue = false;
  };

  void Adopt(StoredPod stored);
  // Compares what is wanted with what is there.
  void Reconcile();
  void RemoveStrangers();
  void Poke(const PodUid& uid);
  void Begin(const PodUid& uid, Entry& entry);
  void Ended(const PodUid& uid, PodWorker::Outcome outcome);
  void Schedule(const PodUid& uid, Entry& entry, std::optional<BootTime> at);
  void ArmTimer();
  void WaitForTimer();
  void OnTimer();
  void Resync();
  void EnsureNetwork();
  void ReportOverdue(BootTime now);
  void LookAtSandboxes();
  void UpdateLive();

  boost::asio::io_context& io_;
  PodServices& services_;
  PodSource& source_;
  const PodTableOptions options_;
  boost::asio::posix::stream_descriptor timer_;  // timerfd on CLOCK_BOOTTIME

  std::map<PodUid, Entry> entries_;
  std::map<std::string, PodUid> names_;  // "namespace/name" of each entry
  std::map<PodUid, std::chrono::seconds> wanted_grace_;
  std::set<std::pair<BootTime, PodUid>> wakes_;
  BootTime next_resync_;
  std::optional<BootTime> release_at_;  // addresses of pods that went are looked at again
  bool strangers_removed_ = false;
  std::atomic<int64_t> last_turn_{0};

  mutable std::mutex live_mutex_;
  std::vector<PodUid> live_;

  std::unique_ptr<WorkerPool> pool_;  // last: its threads use all of the above
};

}  // namespace holdfast::agent
