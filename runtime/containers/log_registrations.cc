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
  if (ensured || !parts_.options.warn) return;
  parts_.options.warn(StrCat("log of container ", record.spec.id.value, ": ",
                             ensured.error().message(), ": its output is not read"));
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
    if (!TryLate(id)) return;  // a logger that is still away would be waited for once for each
    const std::lock_guard lock(mutex_);
    late_.erase(id);
  }
}

bool LogRegistrations::TryLate(const ContainerId& id) {
  const auto entry = parts_.table.Find(id);
  if (!entry) return true;  // it was removed
  const auto guard = parts_.pod_locks.TryLock(entry->brief.pod_uid);
  if (!guard) return false;
  const auto record = parts_.state.Container(id);
  if (!record || !parts_.table.Find(id)) return true;
  return parts_.keeper.EnsureLog(id, record->spec.log).has_value();
}

}  // namespace holdfast::runtime
