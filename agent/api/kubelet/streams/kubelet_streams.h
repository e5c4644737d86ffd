// SPDX-License-Identifier: Apache-2.0
// KubeletStreams: exec, attach, run and port-forward as an API server asks a kubelet for them, over WebSocket
// and SPDY/3.1. It takes connections whose requests an HTTP server has read and permitted.
//
// Thread rule: Take() where the connections' executor runs (one handler at a time). Before that ends somebody else
// calls ShutDown(), and destroys this after the executor: connections belong to both.
// Each session, each connection of a port-forward, is in the audit log.
// It owns the threads on which calls that wait are carried out: few, for all streams.
// Source: feature-map 1.15.4 to 1.15.10; control-plane 7; docs/streams.md.
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/kubelet/streams/spdy_forward.h"
#include "agent/api/kubelet/streams/stream_context.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "agent/base/worker_pool.h"
#include "agent/http/upgraded_connection.h"

namespace holdfast::agent::streams {

class KubeletStreams {
 public:
  static constexpr size_t kMaxConnections = 256;
  static constexpr std::chrono::hours kIdle{4};  // streamingConnectionIdleTimeout

  // `node` and `audit` are borrowed.
  KubeletStreams(NodeOperations& node, access::AuditLog& audit,
                 std::chrono::milliseconds idle_limit = kIdle);
  ~KubeletStreams();
  Result<void> Start();  // the first thread

  // Answers the request and carries its streams until they end.
  void Take(UpgradedConnection connection);
  // Ends all streams and waits for what was begun for them; the executor still runs. What is taken later is refused.
  // Any other thread.
  void ShutDown();
  // Connections with streams. On the executor.
  size_t count() const;

 private:
  void Route(UpgradedConnection connection, StreamRequest request);
  void Command(UpgradedConnection connection, StreamRequest request);
  void Forward(UpgradedConnection connection, const StreamRequest& request);
  void ForwardMessages(UpgradedConnection connection, const std::vector<std::string>& offered,
                       PodForward target, const std::vector<std::string>& ports);
  void Run(UpgradedConnection connection, StreamRequest request);
  void Stop();
  bool Enter(const boost::asio::any_io_executor& executor);
  bool IsStopped();
  void Keep(const std::shared_ptr<StreamConnection>& connection);

  NodeOperations& node_;
  WorkerPool workers_;
  StreamContext context_;
  std::vector<std::weak_ptr<StreamConnection>> connections_;

  std::mutex mutex_;  // guards all below
  bool stopped_ = false;
  std::optional<boost::asio::any_io_executor> executor_;  // the connections'
};

}  // namespace holdfast::agent::streams
