// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/log_registrations.h"

#include <optional>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {

Result<void> LogRegistrations::EnsureAll() {
  ASSIGN_OR_RETURN(const std::vector<ContainerId> known, parts_.keeper.ListLogs());
  const std::set<ContainerId> registered(known.begin(), known.end());
  for (const TableEntry& entry : parts_.table.List()) {
    if (registered.contains(entry.id)) continue;
    const auto record = parts_.state.Container(entry.id);
    if (record) Ensure(*record);  // without one nobody knows where its lines belong
  }
  return {};
}

void LogRegistrations::Ensure(const ContainerRecord& record) {
  if (record.spec.tty) return;  // registered before the launch
  const auto ensured = parts_.keeper.EnsureLog(record.spec.id, record.spec.log);
  if (!ensured) TellUnread(record.spec.id, ensured.error());
}

void LogRegistrations::TellUnread(const ContainerId& id, const Error& why) const {
  if (!parts_.options.warn) return;
  parts_.options.warn(
      StrCat("log of container ", id.value, ": ", why.message(), ": its output is not read"));
}

void LogRegistrations::NoteLate(const ContainerId& id) {
  const std::lock_guard lock(mutex_);
  late_.insert(id);
}

void LogRegistrations::EnsureLate() {
  std::set<ContainerId> late;
  {
    const std::lock_guard lock(mutex_);
    late = late_;
  }
  for (const ContainerId& id : late) {
    if (const auto entry = parts_.table.Find(id)) {
      const auto guard = parts_.pod_locks.TryLock(entry->brief.pod_uid);
      if (!guard) continue;  // the next time
      // Without a record it is being removed.
      if (const auto record = parts_.state.Container(id)) {
        const auto ensured = parts_.keeper.EnsureLog(id, record->spec.log);
        // One that is still away would be waited for once for each.
        if (!ensured && IsNoAnswer(ensured.error())) return;
        if (!ensured) TellUnread(id, ensured.error());
      }
    }
    const std::lock_guard lock(mutex_);
    late_.erase(id);
  }
}

}  // namespace holdfast::runtime
