// SPDX-License-Identifier: Apache-2.0
// AuditScope: one change or session in the audit log: "begin" at construction, "end" by Finish().
#pragma once

#include <string>
#include <utility>

#include "agent/access/audit.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent::access {

class AuditScope {
 public:
  // `what` says who calls, the method, its target and what there is to say of it; the rest is filled
  // in. `log` is borrowed.
  AuditScope(AuditLog& log, AuditEntry what)
      : log_(log), began_(log.clock().Boot()), entry_(std::move(what)) {
    entry_.stage = "begin";
    entry_.id = log_.NextId();
    log_.Write(entry_);
  }

  void Finish(std::string outcome) {
    entry_.stage = "end";
    entry_.outcome = std::move(outcome);
    entry_.duration = log_.clock().Boot() - began_;
    log_.Write(entry_);
  }

 private:
  AuditLog& log_;
  const BootTime began_;
  AuditEntry entry_;
};

}  // namespace holdfast::agent::access
