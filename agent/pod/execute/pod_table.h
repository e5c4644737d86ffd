// SPDX-License-Identifier: Apache-2.0
// PodTable: all pods of the node: who is wanted, who waits for a name, a UID or room, who has to go.
// Takes the registry's news and has a pod's turn run (PodTurns) when something may have changed.
//
// One mutex guards the table and is held for moments only. The public functions may be called from
// any thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/pod/execute/network_upkeep.h"
#include "agent/pod/execute/pod_turns.h"
#include "agent/pod/execute/pod_worker.h"
#include "agent/pod/execute/unknown_pods.h"
#include "agent/source/pod_registry.h"

namespace holdfast::agent {

struct PodTableOptions {
  size_t workers = 8;  // turns, and operations of each kind, at a time
  // That make or remove a sandbox, where programs of others are asked to, which may take their time; 0: as `workers`.
  size_t sandboxes = 0;
  size_t pulls = 1;  // of images, those that wait for others with them
  std::chrono::seconds resync{60};
  // What takes longer is told and no longer counts against `workers`.
  std::chrono::seconds step_deadline{123};
};

class PodTable {
 public:
  PodTable(boost::asio::io_context& io, PodServices& services, PodRegistry& registry,
           PodTableOptions options);
  // The io_context no longer runs. Waits for what runs, except for what is overdue; pods stay as
  // they are.
  ~PodTable();

  // Reads the records, asks the runtime what runs, takes that over and begins to follow the
  // registry. When it returns the view shows every pod that it took over. Before the io_context
  // runs.
  Result<void> Recover();

  // An image was imported: pods that wait for one look again.
  void ImagesChanged();
  // The grace period of a pod whose manifest is about to be removed, or that is ending already: it
  // is shortened then, never made longer. nullopt takes a wish back that the pod has not begun to
  // end with.
  void SetDeletionGrace(const PodUid& uid, std::optional<std::chrono::seconds> grace);
  // Puts an ephemeral container into a pod of a manifest, for as long as that runs; the pod as it is wanted then.
  // kNotFound; kAlreadyExists: a container has its name; kConflict: the pod is an API server's, or is ending.
  Result<std::shared_ptr<const corev1::Pod>> AddEphemeralContainer(
      const PodUid& uid, const corev1::EphemeralContainer& container);
  // The pod is to end as Failed, Evicted, unless it ends already. Of a pod that is not there nothing happens; idempotent.
  void Evict(const PodUid& uid, const Eviction& eviction);
  // Pods that are wanted or still ending.
  std::vector<PodUid> Live() const;
  // Whether the timer's thread turned within the last resync periods.
  bool IsHealthy() const;

 private:
  // Lets threads of operations call in for as long as the table is there.
  struct Door {
    std::mutex mutex;
    PodTable* table = nullptr;
  };
  struct Entry {
    std::unique_ptr<PodWorker> worker;
    PodWorker::Wish wish;
    PodOrigin origin = PodOrigin::kFile;
    bool awaits_image = false;
  };

  // Without the mutex.
  void Listen();
  void Begin();
  void Poke(const PodUid& uid);
  PodTurns::End RunTurn(const PodUid& uid);
  void TakeNews();
  void Resync();
  // All others with it. Who is there:
  Entry& Add(const PodUid& uid, WantedPod wanted, PodMemory memory);
  void Adopt(StoredPod stored);
  void NoteEnded(const PodUid& uid);
  void ReportOverdue();
  // Who is wanted:
  void Want(WantedPod wanted);
  void WantAgain(const PodUid& uid, Entry& entry, WantedPod wanted);
  void NoteClash(const WantedPod& wanted, const PodUid& holder);
  // Who waits:
  void Wait(WantedPod wanted);
  void BeginWaiting();
  bool EndUnbegun(const WantedPod& wanted);
  bool MayBegin(const WantedPod& wanted);
  bool AwaitsRoom(const WantedPod& wanted);
  void GiveUpRoom(const PodUid& uid);
  // Who has to go:
  void NoteGone(const PodUid& uid, Entry& entry);
  void EndPod(const PodUid& uid, Entry& entry, std::optional<std::chrono::seconds> grace);
  void EvictEntry(const PodUid& uid, Entry& entry, const Eviction& eviction);
  void NoteComplete();
  void RemoveUnknown(const PodUid& uid);

  boost::asio::io_context& io_;
  PodServices& services_;
  PodRegistry& registry_;
  const PodTableOptions options_;
  const std::shared_ptr<Door> door_;

  mutable std::mutex mutex_;  // what follows
  std::map<PodUid, Entry> entries_;
  std::map<std::string, PodUid> names_;  // "namespace/name" of each entry
  // Wanted, but the name, the UID, what an unknown pod of that UID left or the room that others give up for it is not
  // free yet.
  std::vector<WantedPod> waiting_;
  bool room_awaited_ = false;  // by one of them
  std::map<PodUid, std::chrono::seconds> wanted_grace_;
  std::set<PodOrigin> complete_;
  UnknownPods unknown_;

  NetworkUpkeep network_;  // thread-safe

  PodTurns turns_;  // last: its threads use all of the above
};

}  // namespace holdfast::agent
