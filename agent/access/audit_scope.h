// SPDX-License-Identifier: Apache-2.0
// AuditScope: one change or exec in the audit log: "begin" at construction, "end" by Finish().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/access/audit.h"
#include "agent/access/peer.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent::access {

class AuditScope {
 public:
  // `what` names the method, its target and what there is to say of it; the rest is filled in.
  // Without a peer nobody knows any more who called. `log` and `clock` are borrowed.
  AuditScope(AuditLog& log, const Clock& clock, const std::optional<Peer>& peer, AuditEntry what)
      : log_(log), clock_(clock), began_(clock.Boot()), entry_(std::move(what)) {
    entry_.stage = "begin";
    entry_.id = log_.NextId();
    entry_.uid = peer ? peer->uid : static_cast<uid_t>(-1);
    entry_.pid = peer ? peer->pid : 0;
    log_.Write(entry_);
  }

  void Finish(std::string outcome) {
    entry_.stage = "end";
    entry_.outcome = std::move(outcome);
    entry_.duration = clock_.Boot() - began_;
    log_.Write(entry_);
  }

 private:
  AuditLog& log_;
  const Clock& clock_;
  const BootTime began_;
  AuditEntry entry_;
};

}  // namespace holdfast::agent::access
