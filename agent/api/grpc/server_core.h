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
#include "agent/api/grpc/refusal_budget.h"
#include "agent/api/grpc/roles.h"
#include "agent/api/grpc/server.h"
#include "agent/api/grpc/unpacked_logs.h"
#include "agent/base/worker_pool.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/wakeup.h"

namespace holdfast::agent::api {

// Calls that block, per kind: short requests wait in a queue; sessions run at once or are refused.
inline constexpr size_t kRequestThreads = 8;
inline constexpr size_t kRequestQueue = 1024;
inline constexpr size_t kLogThreads = 2;
inline constexpr size_t kLogQueue = 16384;  // above streams_per_connection x connections_per_uid

// Answers that wait for one user to read them.
inline constexpr size_t kUnreadAnswerBytes = 32 << 20;

// Copies of packed logs that are being read, of all users.
inline constexpr uint64_t kUnpackedLogBytes = 512 << 20;

struct ServerCore {
  ServerCore(ApiDependencies dependencies, ApiOptions chosen)
      : deps(std::move(dependencies)),
        options(std::move(chosen)),
        audit(options.audit_path, options.audit_max_bytes, options.audit_max_files, deps.clock),
        exec_sessions({.name = "exec sessions", .threads = options.exec_sessions, .queued = 0}),
        // An import or export is two threads: one of the store, one that feeds or drains it.
        transfers({.name = "image transfers",
                   .threads = size_t{2} * options.image_transfers,
                   .queued = 0}) {}

  ApiDependencies deps;
  const ApiOptions options;
  AuditLog audit;
  RefusalBudget refusals;
  std::function<std::optional<Peer>(const std::string& grpc_peer)> peer_of;
  AnswerBudget unread_answers{kUnreadAnswerBytes};
  UnpackedLogs unpacked_logs{kUnpackedLogBytes};
  WorkerPool requests{{.name = "requests", .threads = kRequestThreads, .queued = kRequestQueue}};
  WorkerPool log_readers{{.name = "log readers", .threads = kLogThreads, .queued = kLogQueue}};
  WorkerPool exec_sessions;
  WorkerPool transfers;
  LogWaker log_waker;
  sys::Wakeup stopping;  // set once the server is
};

// Writes a refusal, on a request worker, as long as the user's budget lasts.
inline void AuditRefusal(ServerCore& core, AuditEntry entry) {
  const auto left_out = core.refusals.Take(entry.uid, core.deps.clock.Boot());
  if (!left_out) return;
  if (*left_out > 0) entry.detail = StrCat("and ", *left_out, " before it that were not written");
  core.requests.Post([&core, entry = std::move(entry)] { core.audit.Write(entry); });
}

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
