// SPDX-License-Identifier: Apache-2.0
// LocalServices: Services without an API server. Services and EndpointSlices of the manifest
// directory get what an API server would give them (service_book.h), endpoints come from the pods
// of this node, and both go to the ServiceDriver. One thread of its own.
//
// The driver is started when every desired pod has a status, or after 10 s: the rules of the
// previous agent stay in place until this one knows as much as that one did.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/pod/view.h"
#include "agent/proxy/convert.h"
#include "agent/proxy/service_book.h"
#include "agent/proxy/service_driver.h"
#include "agent/proxy/service_view.h"
#include "agent/source/pod_source.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct LocalServicesOptions {
  std::string node_name;
  std::string zone;  // "" when unknown
  ServiceDriverOptions driver;
  std::chrono::milliseconds patience{10'000};
  // Who answers for an address on the local segments, one line each; may be empty.
  std::function<std::vector<std::string>(const IpAddress&)> announced;
};

// Called from our threads, without a lock held; must not call back.
struct LocalServicesCallbacks {
  // What a service newly could not get, or has no rules for.
  std::function<void(const corev1::Service&, const ServiceTrouble&)> trouble;
  std::function<void(const std::string& line)> log;
};

class LocalServices : public ServiceView {
 public:
  // Everything is borrowed but the book.
  static Result<std::unique_ptr<LocalServices>> Start(PodSource& source, PodView& pods,
                                                      ServiceBackEnd& back_end, const Clock& clock,
                                                      ServiceBook book,
                                                      LocalServicesOptions options,
                                                      LocalServicesCallbacks callbacks);
  ~LocalServices() override;

  // The source has a newer snapshot. Thread-safe; does not block.
  void SourceChanged();

  std::vector<ServicePtr> ListServices() const override;
  std::vector<SlicePtr> ListSlices() const override;
  Result<ExplainedService> Explain(const model::ServiceName& name) const override;
  // Completed; null when there is none.
  ServicePtr Find(const model::ServiceName& name) const;
  Result<std::string> DumpRules() override { return driver_.Dump(); }
  // Other addresses of the node, or ranges that follow from them. Thread-safe.
  void SetTableOptions(const netproxy::TableOptions& table);
  ServiceDriver& driver() { return driver_; }

 private:
  using PodKey = std::pair<std::string, std::string>;  // namespace, name
  struct Known {
    ServicePtr desired;                      // as the source has it
    ServicePtr service;                      // completed
    std::map<std::string, SlicePtr> slices;  // made here, by name
    std::vector<ServiceTrouble> troubles;
  };
  // A Service with what it got from the book.
  struct Completed {
    ServicePtr desired;
    ServicePtr service;
    std::vector<ServiceTrouble> troubles;
  };
  struct Work {
    bool source_changed = false;
    std::map<PodKey, PodPtr> pods;  // null: gone
  };

  LocalServices(PodSource& source, PodView& pods, ServiceBackEnd& back_end, const Clock& clock,
                ServiceBook book, LocalServicesOptions options, LocalServicesCallbacks callbacks);
  ServiceDriverCallbacks DriverCallbacks();
  // From the driver's thread: what the table or the kernel left out.
  void TellProblems(const model::ServiceName& name, const std::vector<std::string>& messages);
  void Tell(const corev1::Service& service, const std::vector<ServiceTrouble>& troubles);
  void Run();
  void Process(Work work);
  void TakePods(Work& work, std::set<model::ServiceName>& touched);
  void TakeNews(const std::shared_ptr<const PodSnapshot>& snapshot,
                std::set<model::ServiceName>& touched);
  void TakeSnapshot(const PodSnapshot& snapshot, std::set<model::ServiceName>& touched);
  void SetServices(std::vector<const DesiredService*> news, std::set<model::ServiceName>& touched);
  bool IsSettled(const model::ServiceName& name, const DesiredService& desired) const;
  void SetService(const DesiredService& desired);
  void UseService(const model::ServiceName& name, Completed completed);
  void TellLeftOut(const model::ServiceName& name, const corev1::Service& desired);
  NodeIdentity Node() const { return {options_.node_name, options_.zone}; }
  void RecordServices();
  void RemoveService(const model::ServiceName& name);
  void SetWrittenSlices(const PodSnapshot& snapshot);
  void SetWrittenSlice(const SlicePtr& slice);
  void RebuildSlices(const model::ServiceName& name);
  void Push(const SlicePtr& slice);
  void NoteTrigger(const SlicePtr& slice);
  void StartDriverWhenSettled(const PodSnapshot& snapshot);
  bool IsSettled(const PodSnapshot& snapshot) const;
  void Flush();

  PodSource& source_;
  ServiceBook book_;
  const LocalServicesOptions options_;
  const LocalServicesCallbacks callbacks_;
  const std::chrono::steady_clock::time_point deadline_;

  // Used by the thread only.
  std::shared_ptr<const PodSnapshot> taken_;  // the last one that was
  bool lacking_ = false;                      // some service did not get what it asks for
  std::map<PodKey, PodPtr> pods_;
  NodeNumbers numbers_;
  std::map<model::ServiceName, Completed> unrecorded_;
  std::vector<std::function<void(netproxy::ServiceTracker&)>> edits_;
  std::vector<WallTime> triggers_;                // of edits_
  std::map<PodKey, std::string> known_triggers_;  // of slices, as they say it
  bool started_ = false;
  bool failed_ = false;       // a record could not be written: try the snapshot again
  std::string record_error_;  // of the last try, told once

  mutable std::mutex mutex_;  // guards what follows; the two maps are written by the thread only
  std::condition_variable wake_;
  Work work_;
  bool stopping_ = false;
  std::map<model::ServiceName, Known> services_;
  std::map<PodKey, SlicePtr> written_slices_;
  std::vector<IpAddress> node_addresses_;

  ServiceDriver driver_;  // after what its thread asks for
  std::unique_ptr<Subscription> subscription_;
  std::thread thread_;
};

}  // namespace holdfast::agent
