// SPDX-License-Identifier: Apache-2.0
#include "netproxy/iptables/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr size_t kOutputLimit = 1u << 30;

struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
};

// A child until it is reaped; killed when nobody waited for it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  }

  // nullopt when it still runs after the limit.
  Result<std::optional<sys::ExitStatus>> Wait(std::chrono::milliseconds limit) {
    ASSIGN_OR_RETURN(const PidFd pidfd, sys::OpenPidFd(pid_));
    pollfd wanted{pidfd.get(), POLLIN, 0};
    const auto end = std::chrono::steady_clock::now() + limit;
    int ready = 0;
    do {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      ready = ::poll(&wanted, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) return std::optional<sys::ExitStatus>();
    ASSIGN_OR_RETURN(const auto status, sys::ReapExit(pidfd.get()));
    reaped_ = status.has_value();
    return status;
  }

 private:
  pid_t pid_;
  bool reaped_ = false;
};

// Pipes would need a reader and a writer at the same time; files in memory do not.
Result<UniqueFd> NewOutput(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return Error::FromErrno(errno, StrCat("memfd_create ", name));
  return fd;
}

Result<std::string> Content(int fd) {
  if (::lseek(fd, 0, SEEK_SET) != 0) return Error::FromErrno(errno, "lseek output");
  return sys::ReadFd(fd, kOutputLimit);
}

Result<pid_t> Spawn(std::vector<std::string>& words, int in, int out, int err) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  SpawnSettings settings;
  ::posix_spawn_file_actions_adddup2(&settings.files, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, err, STDERR_FILENO);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &all);
  ::posix_spawnattr_setflags(&settings.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int status =
      ::posix_spawnp(&pid, argv[0], &settings.files, &settings.attributes, argv.data(), environ);
  if (status != 0) return Error::FromErrno(status, StrCat("start ", words.front()));
  return pid;
}

}  // namespace

Result<CommandOutput> RunCommand(std::vector<std::string> argv, std::string_view input,
                                 std::chrono::milliseconds limit) {
  ASSIGN_OR_RETURN(const UniqueFd in, sys::SealedMemfd("command-input", input));
  if (::lseek(in.get(), 0, SEEK_SET) != 0) return Error::FromErrno(errno, "lseek input");
  ASSIGN_OR_RETURN(const UniqueFd out, NewOutput("command-output"));
  ASSIGN_OR_RETURN(const UniqueFd err, NewOutput("command-errors"));
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, in.get(), out.get(), err.get()));
  Child child(pid);
  ASSIGN_OR_RETURN(const auto status, child.Wait(limit));
  if (!status) {
    return Error(Code::kDeadlineExceeded,
                 StrCat(argv.front(), ": still running after ", limit.count(), " ms"));
  }
  CommandOutput output;
  output.status = status->ShellCode();
  ASSIGN_OR_RETURN(output.out, Content(out.get()));
  ASSIGN_OR_RETURN(output.err, Content(err.get()));
  return output;
}

}  // namespace holdfast::netproxy::iptables
