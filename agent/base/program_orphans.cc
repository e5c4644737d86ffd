// SPDX-License-Identifier: Apache-2.0
#include "agent/base/program_orphans.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "agent/base/bounded_program.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/namespaces.h"
#include "holdfast/sys/process.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kEnvironmentBytes = 2 << 20;
constexpr milliseconds kOrphansEnd{5000};

// A container is in another mount namespace. Its memory is not read: it can have put a file there that somebody serves
// who never answers.
bool IsOf(pid_t pid, const std::string& owner) {
  if (!sys::SharesNamespace(pid, "mnt").value_or(false)) return false;
  const auto environment =
      sys::ReadFileAt(AT_FDCWD, StrCat("/proc/", pid, "/environ"), kEnvironmentBytes);
  const std::string wanted = StrCat(kProgramOwner, "=", owner, std::string(1, '\0'));
  return environment && environment->find(wanted) != std::string::npos;
}

}  // namespace

bool EndOrphans(const std::string& owner) {
  const auto names = sys::ListDirAt(AT_FDCWD, "/proc");
  if (!names) return false;
  std::vector<PidFd> ending;
  for (const std::string& name : *names) {
    const auto pid = WholeNumber<pid_t>(name);
    if (!pid) continue;
    auto process =
        sys::OpenPidFd(*pid);  // before it is looked at: the number may be another's later
    if (!process || !IsOf(*pid, owner)) continue;
    (void)sys::SendSignal(process->get(), SIGKILL);  // gone already is as good
    ending.push_back(std::move(*process));
  }
  const auto until = steady_clock::now() + kOrphansEnd;
  return std::ranges::all_of(ending, [&](const PidFd& process) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    pollfd ended{process.get(), POLLIN, 0};
    return ::poll(&ended, 1, std::max(static_cast<int>(left.count()), 0)) == 1;
  });
}

}  // namespace holdfast::agent
