// SPDX-License-Identifier: Apache-2.0
// SessionLoop: where the streams of Exec, Attach and PortForward live: one thread for all of them, which
// never blocks, and a few, made on demand, for what does (a start, an exit code, dialling, a kill).
// Thread-safe. Ends: EndAll(); then whoever brings sessions ends and waits until each is done; then Finish().
#pragma once

#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "agent/base/worker_pool.h"
#include "agent/stream/descriptor_session.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::api {

enum class SessionKind : uint8_t { kCommand, kForward };

// One that takes part. On the loop's thread.
class LoopSession {
 public:
  virtual ~LoopSession() = default;
  virtual void AgentStops() = 0;
};

class SessionLoop {
 public:
  // So many of each kind at once.
  SessionLoop(size_t commands, size_t forwards);
  ~SessionLoop();
  SessionLoop(const SessionLoop&) = delete;
  SessionLoop& operator=(const SessionLoop&) = delete;

  Result<void> Start();  // its threads
  boost::asio::any_io_executor executor() { return io_.get_executor(); }
  DescriptorSession::Blocking blocking();

  // A place among its kind, for as long as what is returned is there. kResourceExhausted when all are
  // taken; kUnavailable after EndAll().
  Result<std::shared_ptr<void>> Enter(SessionKind kind,
                                      const std::shared_ptr<LoopSession>& session);

  // Each session is told that the agent stops; no other is let in.
  void EndAll();
  // What was begun for sessions is waited for; then the thread ends.
  void Finish();

 private:
  struct Places {
    const char* what;
    size_t limit;
    size_t taken = 0;
  };

  WorkerPool workers_;
  std::mutex mutex_;  // what follows
  Places places_[2];
  bool stopped_ = false;
  std::vector<std::weak_ptr<LoopSession>> sessions_;

  boost::asio::io_context io_{1};  // what waits in it uses all of the above
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace holdfast::agent::api
