// SPDX-License-Identifier: Apache-2.0
// CertificateKeeper: one certificate of this node, asked for when there is none, when it is to be renewed and when it
// no longer says what the node is; kept on the disk with its key. A key is on the disk before it is asked for, so that
// who is killed goes on with the same request. On the API thread. Source: control-plane.md 2.2 to 2.6.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/cluster/api.h"
#include "agent/identity/certificate_files.h"
#include "agent/identity/certificate_plan.h"
#include "agent/identity/certificate_status.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

struct CertificateKeeperOptions {
  std::string name;   // "client certificate"
  bool renew = true;  // before it ends
  // What it is to say; absent: nothing is known to ask for.
  std::function<std::optional<CertificatePlan>()> plan;
  std::function<void(const CertificatePair&)> changed;  // there is another one
  std::function<void()> told;                           // status() is another
  std::function<void(const std::string& line)> log;
  std::function<void(bool warning, const std::string& reason, const std::string& message)> event;
};

class CertificateKeeper {
 public:
  // `api` and `clock` are borrowed.
  CertificateKeeper(Api& api, const Clock& clock, CertificateFiles files,
                    CertificateKeeperOptions options);
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  // Reads what is on the disk. One that names another node is told as trouble and not used.
  void Load();
  // Looks at the time and asks if there is need. `purpose`: whose credentials the API is asked with, so that a request
  // is followed by those that made it; "" at bootstrap.
  void Look(const std::string& purpose);
  // Asks no more, until the next Look().
  void Rest();

  const std::optional<CertificatePair>& current() const { return current_; }
  bool IsAsking() const { return asking_ != nullptr; }
  // It is there, and its time is not over. One whose time has not come is as good: the clock is wrong, maybe since
  // the machine has only just begun.
  bool IsUsable() const;
  const CertificateStatus& status() const { return status_; }
  const std::string& path() const { return files_.current_path(); }

 private:
  bool Wants(const CertificatePlan& plan) const;
  Result<void> Ask(const CertificatePlan& plan, const std::string& purpose);
  Result<std::string> KeyFor(const std::string& purpose) const;
  void TakeState(const RequestState& state, const std::string& chain);
  void TakeIssued(const std::string& chain);
  void TakeRefusal(const RequestState& state);
  void TakeTrouble(const std::string& what);
  void Adopt(CertificatePair pair, const CertificateFacts& facts);
  void SetStatus(CertificateStatus status);

  Api& api_;
  const Clock& clock_;
  const CertificateFiles files_;
  const CertificateKeeperOptions options_;
  std::optional<CertificatePair> current_;
  std::optional<CertificateFacts> facts_;  // of the current one

  // Of the request that is under way.
  TicketPtr asking_;
  std::string purpose_, key_, asked_;
  CertificatePlan plan_;
  int refusals_ = 0;
  BootTime rest_until_;  // after a refusal
  CertificateStatus status_;
};

}  // namespace holdfast::agent
