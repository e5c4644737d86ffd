// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/spawn.h"

namespace holdfast::netproxy::iptables {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kOutputLimit = 1u << 30;

int MillisecondsUntil(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return static_cast<int>(std::max<int64_t>(left.count(), 0));
}

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

  // nullopt when it still runs at the end.
  Result<std::optional<sys::ExitStatus>> Wait(Clock::time_point end) {
    ASSIGN_OR_RETURN(const PidFd pidfd, sys::OpenPidFd(pid_));
    pollfd wanted{pidfd.get(), POLLIN, 0};
    int ready = 0;
    do {
      ready = ::poll(&wanted, 1, MillisecondsUntil(end));
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

// Pipes would need a reader beside the writer; files in memory do not.
Result<UniqueFd> NewOutput(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return Error::FromErrno(errno, StrCat("memfd_create ", name));
  return fd;
}

Result<std::string> Content(int fd) {
  if (::lseek(fd, 0, SEEK_SET) != 0) return Error::FromErrno(errno, "lseek output");
  return sys::ReadFd(fd, kOutputLimit);
}

// A socket, so that a reader that ends early is an error and no signal.
Result<void> NewInput(UniqueFd& ours, UniqueFd& theirs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error::FromErrno(errno, "socketpair for a command's input");
  }
  ours = UniqueFd(ends[0]);
  theirs = UniqueFd(ends[1]);
  return {};
}

// All of it, then end of file. Who does not read it has a reason, which its exit status tells.
void Feed(UniqueFd to, std::string_view input, Clock::time_point end) {
  while (!input.empty()) {
    const ssize_t sent = ::send(to.get(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      input.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    pollfd wanted{to.get(), POLLOUT, 0};
    if (errno == EAGAIN && ::poll(&wanted, 1, MillisecondsUntil(end)) == 0) return;
    if (errno != EAGAIN && errno != EINTR) return;
  }
}

}  // namespace

Result<CommandOutput> RunCommand(std::vector<std::string> argv, std::string_view input,
                                 std::chrono::milliseconds limit, const CommandExtras& extras) {
  const Clock::time_point end = Clock::now() + limit;
  UniqueFd feed;
  UniqueFd in;
  RETURN_IF_ERROR(NewInput(feed, in));
  ASSIGN_OR_RETURN(const UniqueFd out, NewOutput("command-output"));
  ASSIGN_OR_RETURN(const UniqueFd err, NewOutput("command-errors"));
  ASSIGN_OR_RETURN(const pid_t pid,
                   sys::Spawn(argv, {in.get(), out.get(), err.get(), extras.inherited}, environ));
  Child child(pid);
  if (extras.started) extras.started(pid);
  in = UniqueFd();
  Feed(std::move(feed), input, end);
  ASSIGN_OR_RETURN(const auto status, child.Wait(end));
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
