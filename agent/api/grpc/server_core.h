// SPDX-License-Identifier: Apache-2.0
// ServerCore: what every call handler of one ApiServer shares. Created before and destroyed after
// the gRPC servers; thread-safe as a whole.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "agent/access/audit_scope.h"
#include "agent/access/peer.h"
#include "agent/access/refusal_budget.h"
#include "agent/api/grpc/answer_budget.h"
#include "agent/api/grpc/methods.h"
#include "agent/api/grpc/server.h"
#include "agent/api/grpc/session_loop.h"
#include "agent/base/worker_pool.h"
#include "agent/log/log_waker.h"
#include "agent/log/unpacked_logs.h"
#include "agent/operate/node_operations.h"
#include "holdfast/base/strings.h"

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
  ServerCore(NodeOperations& operations, const model::Instance& of_node, const Clock& of_node_clock,
             access::AuditLog& audit_log, ApiOptions chosen)
      : node(operations),
        instance(of_node),
        clock(of_node_clock),
        options(std::move(chosen)),
        audit(audit_log),
        sessions(options.command_sessions, options.forwarded_connections),
        // An import or export is two threads: one of the store, one that feeds or drains it.
        transfers({.name = "image transfers",
                   .threads = size_t{2} * options.image_transfers,
                   .queued = 0}) {}

  NodeOperations& node;
  const model::Instance instance;
  const Clock& clock;
  const ApiOptions options;
  access::AuditLog& audit;
  access::RefusalBudget refusals;
  std::function<std::optional<access::Peer>(const std::string& grpc_peer)> peer_of;
  AnswerBudget unread_answers{kUnreadAnswerBytes};
  UnpackedLogs unpacked_logs{kUnpackedLogBytes};
  WorkerPool requests{{.name = "requests", .threads = kRequestThreads, .queued = kRequestQueue}};
  WorkerPool log_readers{{.name = "log readers", .threads = kLogThreads, .queued = kLogQueue}};
  SessionLoop sessions;
  WorkerPool transfers;
  LogWaker log_waker;
};

// Writes a refusal, on a request worker, as long as the user's budget lasts.
inline void AuditRefusal(ServerCore& core, access::AuditEntry entry) {
  const auto left_out = core.refusals.Take(entry.uid, core.clock.Boot());
  if (!left_out) return;
  if (*left_out > 0) entry.detail = StrCat("and ", *left_out, " before it that were not written");
  core.requests.Post([&core, entry = std::move(entry)] { core.audit.Write(entry); });
}

// What is to be said of a call; of its caller nothing once its connection is forgotten.
inline access::AuditEntry EntryOf(const ServerCore& core, const std::string& grpc_peer,
                                  Method method, std::string target, std::string target_uid = {},
                                  std::string detail = {}) {
  const auto caller = core.peer_of(grpc_peer);
  return {.uid = caller ? caller->uid : static_cast<uid_t>(-1),
          .pid = caller ? caller->pid : 0,
          .method = std::string(RowOf(method).name),
          .target = std::move(target),
          .target_uid = std::move(target_uid),
          .detail = std::move(detail)};
}

// Writes the "begin" line of one change; for request workers.
inline access::AuditScope BeginAudit(ServerCore& core, const std::string& grpc_peer, Method method,
                                     std::string target, std::string target_uid = {}) {
  return {core.audit, EntryOf(core, grpc_peer, method, std::move(target), std::move(target_uid))};
}

}  // namespace holdfast::agent::api
