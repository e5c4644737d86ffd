// SPDX-License-Identifier: Apache-2.0
#include "agent/root_lock.h"

#include <fcntl.h>

#include <chrono>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/lock_file.h"

namespace holdfast::agent {
namespace {

// A former agent that was killed just now still has its locks and sockets.
constexpr std::chrono::seconds kDyingTime{5};

}  // namespace

Result<UniqueFd> LockRoot(const std::string& root) {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, root, 0711));
  auto lock = sys::TakeLock(dir.get(), "agent.lock", kDyingTime);
  if (!lock && lock.error().code() == Code::kConflict) {
    return Conflict(StrCat("another holdfastd uses ", root));
  }
  return WithContext(std::move(lock), root);
}

}  // namespace holdfast::agent
