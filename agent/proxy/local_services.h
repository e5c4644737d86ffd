// SPDX-License-Identifier: Apache-2.0
// LocalServices: Services without an API server. Services and EndpointSlices of the manifest
// directory get what an API server would give them (local_completion.h), endpoints come from the
// pods of this node (local_endpoints.h), and both go to the driver (service_feed.h) and are shown
// (service_catalog.h). One thread of its own.
//
// The driver is started when every desired pod has a status, or after 10 s: the rules of the
// previous agent stay in place until this one knows as much as that one did.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/proxy/local_completion.h"
#include "agent/proxy/service_callbacks.h"
#include "agent/proxy/service_catalog.h"
#include "agent/proxy/service_driver.h"
#include "agent/proxy/service_feed.h"
#include "agent/source/pod_source.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct LocalServicesOptions {
  std::string node_name;
  std::string zone;  // "" when unknown
  std::chrono::milliseconds patience{10'000};
};

class LocalServices {
 public:
  // Everything is borrowed but the book.
  static Result<std::unique_ptr<LocalServices>> Start(
      PodSource& source, PodView& pods, ServiceAllocations book, ServiceDriver& driver,
      ServiceCatalog& catalog, LocalServicesOptions options, ServiceCallbacks callbacks);
  ~LocalServices();
  LocalServices(const LocalServices&) = delete;
  LocalServices& operator=(const LocalServices&) = delete;

  // The source has a newer snapshot. Thread-safe; does not block.
  void SourceChanged();

  // The variables of Services as they are known now; nullopt until those of that generation of the source's are completed.
  // Thread-safe.
  std::optional<std::vector<std::string>> Variables(const std::string& of_namespace, bool links,
                                                    uint64_t of_generation) const;
  // `shown` is called on the thread of this object after each time that Services were completed; not
  // any more when this returns. Must not block.
  void SetListener(std::function<void()> shown);

 private:
  using PodKey = std::pair<std::string, std::string>;  // namespace, name
  struct Known {
    ServicePtr desired;                      // as the source has it
    ServicePtr service;                      // completed
    std::map<std::string, SlicePtr> slices;  // made here, by name
  };
  struct Work {
    bool source_changed = false;
    std::map<PodKey, PodPtr> pods;  // null: gone
  };

  LocalServices(PodSource& source, PodView& pods, ServiceAllocations book, ServiceDriver& driver,
                ServiceCatalog& catalog, LocalServicesOptions options, ServiceCallbacks callbacks);
  void Run();
  void Process(Work work);
  void Shown(uint64_t generation);
  void TakePods(Work& work, std::set<model::ServiceName>& touched);
  void TakeNews(const std::shared_ptr<const PodSnapshot>& snapshot,
                std::set<model::ServiceName>& touched);
  void TakeSnapshot(const PodSnapshot& snapshot, std::set<model::ServiceName>& touched);
  void CompleteServices(std::vector<const DesiredService*> news,
                        std::set<model::ServiceName>& touched);
  void UseRecordedServices();
  void UseService(const model::ServiceName& name, const LocalCompletion::Completed& completed);
  void Tell(const corev1::Service& service, const std::vector<ServiceTrouble>& troubles);
  NodeIdentity Node() const { return {options_.node_name, options_.zone}; }
  void RemoveService(const model::ServiceName& name);
  void SetWrittenSlices(const PodSnapshot& snapshot);
  void SetWrittenSlice(const SlicePtr& slice);
  void RebuildSlices(const model::ServiceName& name);
  void SetSlice(const SlicePtr& slice);
  void RemoveSlice(const PodKey& key);
  void StartDriverWhenSettled(const PodSnapshot& snapshot);
  bool IsSettled(const PodSnapshot& snapshot) const;

  PodSource& source_;
  ServiceDriver& driver_;
  ServiceCatalog& catalog_;
  const LocalServicesOptions options_;
  const ServiceCallbacks callbacks_;
  const std::chrono::steady_clock::time_point deadline_;

  // Used by the thread only.
  LocalCompletion completion_;
  ServiceFeed feed_;
  std::shared_ptr<const PodSnapshot> taken_;  // the last one that was
  std::map<PodKey, PodPtr> pods_;
  std::map<model::ServiceName, Known> services_;
  std::map<PodKey, SlicePtr> written_slices_;
  bool started_ = false;
  std::atomic<uint64_t> shown_ = 0;  // the generation that the catalog has; 0: none yet
  bool failed_ = false;              // a record could not be written: try the snapshot again
  std::string record_error_;         // of the last try, told once

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Work work_;
  bool stopping_ = false;

  std::mutex telling_;              // held while the listener runs
  std::function<void()> listener_;  // guarded by it

  std::unique_ptr<Subscription> subscription_;
  std::thread thread_;
};

}  // namespace holdfast::agent
