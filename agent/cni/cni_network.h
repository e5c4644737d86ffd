// SPDX-License-Identifier: Apache-2.0
// CniNetwork: the PodNetwork that CNI plugins make (docs/cni.md). Thread-safe: pods are attached and detached side by
// side, one verb at a time for each, and nothing is locked while a plugin runs; a plugin that hangs holds up its own pod
// until its time is up. What survives: attachment.h.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/cni/attachment.h"
#include "agent/cni/network_watch.h"
#include "agent/cni/plugin.h"
#include "holdfast/interfaces/pod_network.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent {

struct CniOptions {
  std::string config_directory;
  std::vector<std::string> plugin_directories;  // searched in this order
  std::string cache_directory;                  // records, of this agent alone
  std::string netns_directory;                  // where plugins see the pods' namespaces
  // Capability cgroupPath; {}: plugins are not told.
  std::function<std::string(const PodUid& uid, model::QosClass qos)> cgroup_of = {};
  // Whether the node's first address is of IPv6: then the pods' is, too.
  std::function<bool()> prefers_v6 = [] { return false; };
  std::function<void(const std::string& line)> log;
  // For all plugins of a network together: ADD, and DEL.
  std::chrono::milliseconds verb_limit{110'000};
  // The same of what is done in the background: CHECK of one pod, GC.
  std::chrono::milliseconds background_limit{30'000};
  cni::NetworkWatchOptions watch = {};  // its times; what else it needs comes from the above
};

class CniNetwork : public PodNetwork {
 public:
  // Reads the records, ends plugins that a killed agent left behind, and looks at the configuration once; a bad one is no
  // error. kConflict while another agent uses the same cache directory.
  static Result<std::unique_ptr<CniNetwork>> Open(CniOptions options);
  ~CniNetwork() override;
  CniNetwork(const CniNetwork&) = delete;
  CniNetwork& operator=(const CniNetwork&) = delete;

  // Plugins that run are ended, and no further one is begun.
  void Stop() { stop_.Set(); }

  // The node-wide parts are the plugins' own.
  Result<void> Ensure() override { return {}; }
  Result<void> Release() override { return {}; }
  Result<std::vector<std::string>> Setup(const PodNetworkRequest& request) override;
  std::string NotReadyBecause() override { return watch_->Problem(); }
  std::vector<std::string> LeftOut(const PodNetworkRequest& request) override;
  Result<void> Teardown(const PodUid& uid) override;
  std::vector<std::string> Addresses(const PodUid& uid) override;
  bool Holds(const PodUid& uid) override;
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) override;
  std::vector<std::string> TakeWarnings() override;

  // As NetworkWatch::SetListener().
  void SetListener(std::function<void(const std::string& problem)> listener) {
    watch_->SetListener(std::move(listener));
  }

 private:
  class Claim;
  struct Entry {
    cni::Attachment attachment;
    std::chrono::steady_clock::time_point since = {};  // this process wrote it first
  };

  CniNetwork(CniOptions options, cni::AttachmentStore store, sys::Wakeup stop);
  void Adopt(cni::AttachmentStore::Loaded loaded);
  cni::Attachment NewAttachment(const PodNetworkRequest& request,
                                const cni::NetworkConfig& network) const;
  Result<std::vector<std::string>> Attach(cni::Attachment& attachment, int netns);
  Result<void> Detach(cni::Attachment attachment);
  Result<void> Save(const cni::Attachment& attachment);
  std::vector<std::string> AddressesOf(const cni::Attachment& attachment) const;
  // An attachment that stands, as far as is known.
  static bool IsAttached(const cni::Attachment& attachment) {
    return attachment.IsAdded() && !attachment.detaching;
  }
  std::unique_ptr<cni::Attachment> Find(const PodUid& uid);
  void Warn(std::string line);
  // cni_tend.cc: on the watch's thread.
  void Tend(const cni::NetworkConfig& network, bool changed);
  bool CollectGarbage(const cni::NetworkConfig& network);
  void CheckAll();

  const CniOptions options_;
  const cni::AttachmentStore store_;
  const sys::Wakeup stop_;
  const cni::Plugins plugins_;

  std::mutex mutex_;  // what follows
  std::condition_variable freed_;
  std::map<PodUid, Entry> entries_;
  std::set<PodUid> busy_;    // a verb of that pod is under way
  bool collecting_ = false;  // GC is: no other verb may be
  std::vector<std::string> warnings_;

  // Of the watch's thread.
  bool checked_ = false;
  bool garbage_ = false;

  std::unique_ptr<cni::NetworkWatch> watch_;  // last: its thread uses the rest
};

}  // namespace holdfast::agent
