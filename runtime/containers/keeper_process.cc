// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/keeper_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/socket.h"
#include "holdfast/sys/spawn.h"
#include "runtime/keeper/client/client.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kKeeperLimit = std::chrono::seconds(10);
constexpr auto kSpawnPause = std::chrono::seconds(1);
constexpr size_t kMaxStatus = 64 << 10;

// In the forked child: only async-signal-safe calls, since other threads may have held locks.
[[noreturn]] void BecomeKeeper(int binary, char* const* argv, char* const* environment,
                               const std::optional<rlimit>& core) {
  ::setsid();
  const pid_t grandchild = ::fork();
  if (grandchild != 0) ::_exit(grandchild > 0 ? 0 : 1);
  const int null = ::open("/dev/null", O_RDWR);
  if (null >= 0) {
    ::dup2(null, STDIN_FILENO);
    ::dup2(null, STDOUT_FILENO);
  }
  // Whatever a library left open on exec: the keeper lives longer than this process and its ports.
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (core) ::setrlimit(RLIMIT_CORE, &*core);
  ::fexecve(binary, argv, environment);
  ::_exit(127);
}

Result<pid_t> HolderPid(const model::Instance& instance) {
  ASSIGN_OR_RETURN(const UniqueFd socket, sys::ConnectSeqpacket(instance.KeeperSocket()));
  ASSIGN_OR_RETURN(const sys::PeerCredentials peer, sys::GetPeerCredentials(socket.get()));
  return peer.pid;
}

}  // namespace

Result<PidFd> FindHolder(const model::Instance& instance) {
  ASSIGN_OR_RETURN(const pid_t pid, HolderPid(instance));
  PidFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return Error::FromErrno(errno, "pidfd_open of the keeper");
  return fd;
}

Result<uint64_t> KeeperCapabilities(const model::Instance& instance) {
  constexpr std::string_view kField = "\nCapBnd:\t";
  ASSIGN_OR_RETURN(const pid_t pid, HolderPid(instance));
  const std::string path = StrCat("/proc/", pid, "/status");
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kMaxStatus));
  uint64_t set = 0;
  const size_t at = text.find(kField);
  const char* first = text.data() + (at == text.npos ? text.size() : at + kField.size());
  const auto read = std::from_chars(first, text.data() + text.size(), set, 16);
  if (read.ec != std::errc()) return Internal(StrCat(path, ": no capability bounding set"));
  return set;
}

Result<void> SpawnKeeper(const RuntimeOptions& options) {
  const std::string& binary = options.keeper_binary;
  const model::Instance& instance = options.instance;
  ASSIGN_OR_RETURN(const UniqueFd fd, sys::OpenAt(AT_FDCWD, binary, O_RDONLY));
  std::vector<std::string> arguments = {"holdfast-keeper", "hold",
                                        StrCat("--run-dir=", instance.run_dir),
                                        StrCat("--visible=", instance.root_dir)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::vector<char*> environment = sys::OwnProgramEnvironment();
  const pid_t child = ::fork();
  if (child < 0) return Error::FromErrno(errno, "fork for the keeper");
  if (child == 0) {
    BecomeKeeper(fd.get(), argv.data(), environment.data(), options.keeper_core_limit);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Error::FromErrno(errno, "wait for the keeper's parent");
  }
  HOLDFAST_PAUSE_POINT("containers.keeper_spawned");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Unavailable(StrCat("start keeper ", binary, ": fork failed"));
  }
  return {};
}

Result<PidFd> EnsureKeeper(const RuntimeOptions& options) {
  const std::string& binary = options.keeper_binary;
  const model::Instance& instance = options.instance;
  const keeper::KeeperClient client(instance.run_dir);
  Result<PidFd> holder = Unavailable("no keeper");
  const auto deadline = steady_clock::now() + kKeeperLimit;
  auto next_spawn = steady_clock::now();
  for (milliseconds pause(1);; pause = std::min(pause * 2, milliseconds(50))) {
    holder = FindHolder(instance);
    // Again when it died before it answered; of two holders the second ends at once.
    if (!holder && !binary.empty() && steady_clock::now() >= next_spawn) {
      RETURN_IF_ERROR(WithContext(SpawnKeeper(options), "start the keeper"));
      next_spawn = steady_clock::now() + kSpawnPause;
      continue;
    }
    // Not for long: a holder that dies meanwhile has to be started again.
    auto answer = holder ? client.Ping(kSpawnPause) : Result<void>(Error(holder.error()));
    if (answer) return holder;
    if (steady_clock::now() >= deadline) {
      return Unavailable(StrCat("the keeper does not answer at ", instance.KeeperSocket(), ": ",
                                answer.error().message()));
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace holdfast::runtime
