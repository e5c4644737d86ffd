// SPDX-License-Identifier: Apache-2.0
#include "agent/base/bounded_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/spawn.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kShownErrors = 512;  // the end of what it says of itself
constexpr size_t kErrorsAtOnce = 64 << 10;
constexpr milliseconds kLook{100};
constexpr milliseconds kEndOfKilled{5000};
// How to speak to systemd as if one were the agent.
constexpr std::string_view kOwnVariables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                              "LISTEN_FDS", "LISTEN_PID"};

// "NAME=value", the program's before ours.
std::vector<std::string> EnvironmentOf(const BoundedProgram& program) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equal = text.find('=');
    if (equal != std::string::npos) variables[text.substr(0, equal)] = text.substr(equal + 1);
  }
  for (const std::string_view name : kOwnVariables) variables.erase(std::string(name));
  for (const auto& [name, value] : program.env) variables[name] = value;
  if (!program.owner.empty()) variables[kProgramOwner] = program.owner;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(StrCat(name, "=", value));
  return entries;
}

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe2");
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return Error::FromErrno(errno, "fcntl");
  return pipe;
}

// Children that were killed and have not ended: reaped when others are started, so that no more of them than there are
// dead servers are ever left.
class LeftAlone {
 public:
  void Add(PidFd child) {
    const std::lock_guard lock(mutex_);
    children_.push_back(std::move(child));
  }
  void Reap() {
    const std::lock_guard lock(mutex_);
    std::erase_if(children_, [](const PidFd& child) {
      const auto status = sys::ReapExit(child.get());
      return !status || status->has_value();
    });
  }

 private:
  std::mutex mutex_;
  std::vector<PidFd> children_;
};

LeftAlone& Left() {
  static LeftAlone left;
  return left;
}

// False: not within `time`.
bool EndsWithin(const PidFd& process, milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    pollfd ended{process.get(), POLLIN, 0};
    const int ready = ::poll(&ended, 1, std::max(static_cast<int>(left.count()), 0));
    if (ready >= 0 || errno != EINTR) return ready == 1;
  }
}

// A program that runs, in a group of its own, and what it has written. Ends with this object.
class Running {
 public:
  Running(pid_t pid, PidFd pidfd, UniqueFd out, UniqueFd err, size_t limit)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        out_(std::move(out)),
        err_(std::move(err)),
        limit_(limit) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  // The group first: until it is reaped its number is nobody else's.
  ~Running() {
    if (reaped_) return;
    (void)::kill(-pid_, SIGKILL);  // ESRCH: nobody of it is left
    if (EndsWithin(pidfd_, kEndOfKilled)) {
      (void)sys::ReapExit(pidfd_.get());  // how it ended matters to nobody any more
    } else {
      Left().Add(std::move(pidfd_));
    }
  }

  Result<sys::ExitStatus> Wait(const sys::Wakeup& stop, const ProgramLimits& limits) {
    const auto deadline = steady_clock::now() + limits.time;
    while (true) {
      const auto left =
          std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()).count();
      if (left <= 0)
        return Error(Code::kDeadlineExceeded, StrCat("no end within ", limits.time.count(), " ms"));
      const auto nap = limits.cancelled != nullptr ? std::min<int64_t>(left, kLook.count()) : left;
      std::array<pollfd, 4> fds{{{pidfd_.get(), POLLIN, 0},
                                 {out_.get(), POLLIN, 0},
                                 {err_.get(), POLLIN, 0},
                                 {stop.fd(), POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), static_cast<int>(nap)) < 0 && errno != EINTR) {
        return Error::FromErrno(errno, "poll");
      }
      if (limits.cancelled != nullptr && *limits.cancelled) {
        return Unavailable("not wanted any more");
      }
      if (fds[3].revents != 0) return Unavailable("the agent stops");
      Drain(out_, output_, limit_ + 1 - output_.size());
      DrainErrors();
      if (output_.size() > limit_) {
        return Error(Code::kResourceExhausted, StrCat("wrote more than ", limit_, " bytes"));
      }
      if (fds[0].revents != 0) return Reap();
    }
  }

  std::string TakeOutput() { return std::move(output_); }
  std::string errors() const { return Printable(errors_); }  // the last of them

 private:
  Result<sys::ExitStatus> Reap() {
    (void)::kill(-pid_, SIGKILL);  // what it left behind
    reaped_ = true;
    ASSIGN_OR_RETURN(const auto status, sys::ReapExit(pidfd_.get()));
    if (!status) return Internal("its end was told and is not there");
    return *status;
  }

  // What is there now, at most `most` bytes of it. The end of a pipe is not waited for again.
  static void Drain(UniqueFd& fd, std::string& into, size_t most) {
    std::array<char, 4096> bytes;
    for (size_t taken = 0; fd.valid() && taken < most;) {
      const ssize_t size = ::read(fd.get(), bytes.data(), std::min(bytes.size(), most - taken));
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) return fd.Reset();
      into.append(bytes.data(), static_cast<size_t>(size));
      taken += static_cast<size_t>(size);
    }
  }

  // Whoever writes without end must not hold us here; only the last of it is of use.
  void DrainErrors() {
    Drain(err_, errors_, kErrorsAtOnce);
    if (errors_.size() > kShownErrors) errors_.erase(0, errors_.size() - kShownErrors);
  }

  const pid_t pid_;
  PidFd pidfd_;
  UniqueFd out_, err_;
  const size_t limit_;
  std::string output_, errors_;
  bool reaped_ = false;
};

// A file in memory: nobody has to feed a pipe to whoever does not read it.
Result<UniqueFd> InputOf(const BoundedProgram& program) {
  if (program.input.empty()) return sys::OpenAt(AT_FDCWD, "/dev/null", O_RDONLY);
  return sys::SealedMemfd("input", program.input);
}

Result<std::unique_ptr<Running>> Start(const BoundedProgram& program, size_t limit) {
  Left().Reap();
  ASSIGN_OR_RETURN(const UniqueFd input, InputOf(program));
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  std::vector<std::string> words = {program.command};
  words.insert(words.end(), program.args.begin(), program.args.end());
  std::vector<std::string> entries = EnvironmentOf(program);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  const sys::ChildFds fds{
      .in = input.get(), .out = out.write.get(), .err = err.write.get(), .own_group = true};
  ASSIGN_OR_RETURN(const pid_t pid, sys::Spawn(std::move(words), fds, environment.data()));
  auto pidfd = sys::OpenPidFd(pid);  // it is our child: its number stays its own until it is reaped
  if (!pidfd) {
    (void)::kill(-pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);  // it is ours and dead
    return std::move(pidfd.error());
  }
  return std::make_unique<Running>(pid, std::move(*pidfd), std::move(out.read), std::move(err.read),
                                   limit);
}

}  // namespace

Result<ProgramEnd> RunToItsEnd(const BoundedProgram& program, const sys::Wakeup& stop,
                               const ProgramLimits& limits) {
  ASSIGN_OR_RETURN(const auto running, Start(program, limits.output));
  ASSIGN_OR_RETURN(const sys::ExitStatus status, running->Wait(stop, limits));
  return ProgramEnd{status, running->TakeOutput(), running->errors()};
}

Result<std::string> RunBounded(const BoundedProgram& program, const sys::Wakeup& stop,
                               const ProgramLimits& limits) {
  ASSIGN_OR_RETURN(ProgramEnd end, RunToItsEnd(program, stop, limits));
  if (end.status.ShellCode() == 0) return std::move(end.output);
  return Unavailable(StrCat("failed with exit code ", end.status.ShellCode(), ": ", end.errors));
}

}  // namespace holdfast::agent
