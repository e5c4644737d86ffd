// SPDX-License-Identifier: Apache-2.0
// ReportInbox: the newest report of each pod, from any thread, until the API's thread takes them all.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "agent/report/pod_reporter.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

class ReportInbox {
 public:
  struct Content {
    std::map<PodUid, PodReport> reports;
    std::set<PodUid> forgotten;  // to be dealt with before the reports
  };

  // True: nobody was told yet that there is something, so that the caller has to.
  bool Put(const PodUid& uid, PodReport report) {
    const std::lock_guard lock(mutex_);
    content_.reports.insert_or_assign(uid, std::move(report));
    return !std::exchange(told_, true);
  }
  bool Forget(const PodUid& uid) {
    const std::lock_guard lock(mutex_);
    content_.reports.erase(uid);
    content_.forgotten.insert(uid);
    return !std::exchange(told_, true);
  }
  // Nothing once it is closed.
  Content Take() {
    const std::lock_guard lock(mutex_);
    told_ = false;
    return closed_ ? Content() : std::exchange(content_, {});
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  std::mutex mutex_;  // what follows
  Content content_;
  bool told_ = false;
  bool closed_ = false;
};

}  // namespace holdfast::agent
