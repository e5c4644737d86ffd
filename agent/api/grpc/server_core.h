// SPDX-License-Identifier: Apache-2.0
// ServerCore: what every call handler of one ApiServer shares. Created before and destroyed after
// the gRPC servers; thread-safe as a whole.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/api/grpc/answer_budget.h"
#include "agent/api/grpc/audit.h"
#include "agent/api/grpc/log_waker.h"
#include "agent/api/grpc/peer.h"
#include "agent/api/grpc/roles.h"
#include "agent/api/grpc/server.h"
#include "agent/api/grpc/workers.h"

namespace holdfast::agent::api {

// Calls that block, per kind: short requests wait in a queue; sessions run at once or are refused.
inline constexpr size_t kRequestThreads = 8;
inline constexpr size_t kRequestQueue = 1024;
inline constexpr size_t kLogThreads = 2;
inline constexpr size_t kLogQueue = 16384;  // above streams_per_connection x connections_per_uid

// Answers that wait for one user to read them.
inline constexpr size_t kUnreadAnswerBytes = 32 << 20;

struct ServerCore {
  ServerCore(ApiDependencies dependencies, ApiOptions chosen)
      : deps(std::move(dependencies)),
        options(std::move(chosen)),
        audit(options.audit_path, options.audit_max_bytes, options.audit_max_files, deps.clock),
        exec_sessions("api-exec", options.exec_sessions, 0),
        // An import or export is two threads: one of the store, one that feeds or drains it.
        transfers("api-transfer", size_t{2} * options.image_transfers, 0) {}

  ApiDependencies deps;
  const ApiOptions options;
  AuditLog audit;
  std::function<std::optional<Peer>(const std::string& grpc_peer)> peer_of;
  AnswerBudget unread_answers{kUnreadAnswerBytes};
  Workers requests{"api-request", kRequestThreads, kRequestQueue};
  Workers log_readers{"api-logs", kLogThreads, kLogQueue};
  Workers exec_sessions;
  Workers transfers;
  LogWaker log_waker;
  UniqueFd stop_event;  // readable once the server is stopping
};

// One change or exec in the audit log: "begin" at construction, "end" by Finish().
class AuditScope {
 public:
  AuditScope(ServerCore& core, const std::string& grpc_peer, Method method, std::string target,
             std::string target_uid = {}, std::string detail = {})
      : core_(core), began_(core.deps.clock.Boot()) {
    entry_.stage = "begin";
    entry_.id = core.audit.NextId();
    if (const auto peer = core.peer_of(grpc_peer)) {
      entry_.uid = peer->uid;
      entry_.pid = peer->pid;
    } else {
      entry_.uid = static_cast<uid_t>(-1);
    }
    entry_.method = RowOf(method).name;
    entry_.target = std::move(target);
    entry_.target_uid = std::move(target_uid);
    entry_.detail = std::move(detail);
    core.audit.Write(entry_);
  }

  void Finish(std::string outcome) {
    entry_.stage = "end";
    entry_.outcome = std::move(outcome);
    entry_.duration = core_.deps.clock.Boot() - began_;
    core_.audit.Write(entry_);
  }

 private:
  ServerCore& core_;
  const BootTime began_;
  AuditEntry entry_;
};

}  // namespace holdfast::agent::api
