// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/half_made.h"

#include <thread>
#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/containers/teardown.h"

namespace holdfast::runtime {
namespace {

// A launch that a former agent asked for is over after this time, one way or the other.
constexpr auto kLaunchLimit = std::chrono::seconds(15);
constexpr std::chrono::milliseconds kSettlePause{2};

}  // namespace

void HalfMade::Take(std::vector<ContainerRecord> records) {
  const std::lock_guard lock(mutex_);
  for (ContainerRecord& record : records) {
    ContainerId id = record.spec.id;
    records_.emplace(std::move(id), std::move(record));
  }
}

std::vector<ContainerId> HalfMade::List() const {
  std::vector<ContainerId> ids;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, record] : records_) ids.push_back(id);
  return ids;
}

Result<void> HalfMade::Await(const model::ContainerSpec& spec) {
  const BootTime deadline = parts_.clock.Boot() + 2 * kLaunchLimit;
  while (const auto former = Find([&](const model::ContainerSpec& of) {
           return of.pod_uid == spec.pod_uid && of.name == spec.name && of.attempt == spec.attempt;
         })) {
    if (Settle(*former)) continue;
    if (parts_.clock.Boot() >= deadline) {
      return Unavailable(StrCat("container ", former->spec.id.value,
                                ", which an agent before this one began to start, is not settled"));
    }
    std::this_thread::sleep_for(kSettlePause);
  }
  return {};
}

std::optional<ContainerRecord> HalfMade::Find(
    const std::function<bool(const model::ContainerSpec&)>& is_it) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, record] : records_) {
    if (is_it(record.spec)) return record;
  }
  return std::nullopt;
}

bool HalfMade::Resolve(const ContainerId& id) {
  const auto find = [&] {
    return Find([&](const model::ContainerSpec& spec) { return spec.id == id; });
  };
  const auto seen = find();
  if (!seen) return true;
  const auto guard = parts_.pod_locks.TryLock(seen->spec.pod_uid);
  if (!guard) return false;
  const auto record = find();  // whoever had the lock may have settled it
  return !record || Settle(*record);
}

bool HalfMade::Settle(const ContainerRecord& record) {
  const ContainerId& id = record.spec.id;
  auto start = parts_.keeper.FindStart(id.value);
  if (!start) return false;
  if (*start) {
    if (!parts_.keeper.HasBegun(**start).value_or(false) || !adopt_(**start, record)) return false;
  } else {
    const ContainerBrief brief = BriefOf(record.spec);
    auto fenced = FenceLaunch(parts_, id, brief);
    const bool late = parts_.clock.Wall() - record.created_at > kLaunchLimit;
    if (!fenced || (!*fenced && !late)) return false;
    if (!TearDown(parts_, id, brief)) return false;
  }
  const std::lock_guard lock(mutex_);
  records_.erase(id);
  return true;
}

}  // namespace holdfast::runtime
