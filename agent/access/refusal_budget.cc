// SPDX-License-Identifier: Apache-2.0
#include "agent/access/refusal_budget.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::agent::access {
namespace {

constexpr double kAtOnce = 20;
constexpr double kPerSecond = 1;
// Only members of the socket's group get so far: more users than this share an account.
constexpr size_t kMaxUsers = 1024;
constexpr uid_t kOthers = static_cast<uid_t>(-1);

}  // namespace

std::optional<uint64_t> RefusalBudget::Take(uid_t uid, BootTime now) {
  const std::lock_guard lock(mutex_);
  if (accounts_.size() >= kMaxUsers && !accounts_.contains(uid)) uid = kOthers;
  const auto [it, is_new] = accounts_.try_emplace(uid, Account{kAtOnce, 0, now});
  Account& account = it->second;
  const std::chrono::duration<double> passed = now - account.filled;
  account.lines = std::min(kAtOnce, account.lines + passed.count() * kPerSecond);
  account.filled = now;
  if (account.lines < 1) {
    ++account.left_out;
    return std::nullopt;
  }
  account.lines -= 1;
  return std::exchange(account.left_out, 0);
}

}  // namespace holdfast::agent::access
