// SPDX-License-Identifier: Apache-2.0
// LocalCompletion: what becomes of the manifest directory's Services when the ServiceAllocations has
// judged them. Who asks for something of his choice gets it before it is given to somebody who
// takes anything; nothing is used that is not on the disk. Single-thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/proxy/service_allocations.h"
#include "agent/proxy/service_view.h"
#include "agent/source/pod_source.h"

namespace holdfast::agent {

class LocalCompletion {
 public:
  struct Completed {
    ServicePtr desired;  // as the source has it
    ServicePtr service;
    std::vector<ServiceTrouble> troubles;
  };
  using CompletedServices = std::map<model::ServiceName, Completed>;

  explicit LocalCompletion(ServiceAllocations book) : book_(std::move(book)) {}

  // Nothing new of a service that has what it wants. One that lacks something may get it now.
  bool IsSettled(const DesiredService& desired) const;
  // Some service did not get what it asks for.
  bool IsLacking() const { return !lacking_.empty(); }
  // Every service that has something of the book, or had when it was written.
  std::set<model::ServiceName> Names() const;

  // The book decides at once, so that nobody else gets the same.
  void Complete(std::vector<const DesiredService*> news);
  void Forget(const model::ServiceName& name);

  struct Recorded {
    CompletedServices usable;
    std::string error;  // "" when everything is on the disk
  };
  // One sync for all that is new since the last time. Where it fails, who had addresses goes on as
  // it is, and who had none is shown without.
  Recorded Record();

 private:
  void Use(const model::ServiceName& name, Completed completed, CompletedServices& usable);

  ServiceAllocations book_;
  std::map<model::ServiceName, ServicePtr> desired_;  // as last used
  std::set<model::ServiceName> lacking_;
  CompletedServices waiting_;  // for Record()
};

}  // namespace holdfast::agent
