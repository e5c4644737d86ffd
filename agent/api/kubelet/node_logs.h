// SPDX-License-Identifier: Apache-2.0
// NodeLogs: /logs/…: the files below the node's log directory, as Go's file server shows them: directories as links,
// files as they are. No link leads out of the directory, also none that a pod made there. On the HTTPS server's
// thread; files are read elsewhere.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "agent/base/worker_pool.h"
#include "agent/http/exchange.h"

namespace holdfast::agent::api {

class NodeLogs {
 public:
  // `pool` is borrowed and outlives this.
  NodeLogs(std::string root, WorkerPool& pool);
  ~NodeLogs();  // who still reads gets nothing more
  NodeLogs(const NodeLogs&) = delete;
  NodeLogs& operator=(const NodeLogs&) = delete;

  // `path`: what follows "/logs/", decoded.
  void Answer(const ExchangePtr& exchange, const std::string& path);

 private:
  class Body;
  const std::string root_;
  WorkerPool& pool_;
  std::set<std::shared_ptr<Body>> open_;  // shared with what is posted for them
};

}  // namespace holdfast::agent::api
