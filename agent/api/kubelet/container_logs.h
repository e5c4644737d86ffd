// SPDX-License-Identifier: Apache-2.0
// ContainerLogs: /containerLogs/NAMESPACE/POD/CONTAINER: a container's log as text, to its end or as it grows. On the
// HTTPS server's thread; files are read elsewhere. Source: control-plane.md 7.7, feature-map 1.14.5 to 1.14.7.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "agent/api/kubelet/log_query.h"
#include "agent/base/worker_pool.h"
#include "agent/http/exchange.h"
#include "agent/log/log_follower.h"
#include "agent/log/log_waker.h"
#include "agent/log/unpacked_logs.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/clock.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent::api {

// "", or what a kubelet says instead of a log: it is what kubectl shows. Pure.
std::string WhyNoLog(const k8s::io::api::core::v1::Pod& pod, const std::string& container,
                     bool previous);

class ContainerLogs {
 public:
  // All borrowed. `pool` outlives this and has ended what it runs before.
  ContainerLogs(PodView& pods, const model::Instance& instance, const Clock& clock,
                WorkerPool& pool);
  ~ContainerLogs();  // who still reads gets nothing more
  ContainerLogs(const ContainerLogs&) = delete;
  ContainerLogs& operator=(const ContainerLogs&) = delete;

  // `parts`: what follows "/containerLogs/".
  void Answer(const ExchangePtr& exchange, const std::vector<std::string>& parts,
              const Query& query);

 private:
  class Body;
  LogSources Sources();

  PodView& pods_;
  const model::Instance& instance_;
  const Clock& clock_;
  WorkerPool& pool_;
  UnpackedLogs unpacked_;
  LogWaker waker_;
  std::set<std::shared_ptr<Body>> open_;  // shared with what is posted for them
};

}  // namespace holdfast::agent::api
