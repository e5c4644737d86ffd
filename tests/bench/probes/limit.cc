// SPDX-License-Identifier: Apache-2.0
// bench_probes_limit SECONDS: the kernel's work for a probe each second, with nothing around it: no schedule but a sorted
// list, no thresholds, no records, no logs, no cgroup of its own. stdin has a line per pod: its kind ('e', 'h', 't', 'g'), its
// address, the process that an exec is to join, the file that its program writes to. Prints how many there were and failed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "beat.h"
#include "health_wire.h"

namespace holdfast::bench {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

struct Target {
  char kind = 0;
  std::string address;
  pid_t process = -1;
  std::string file;
  int pidfd = -1;
  int64_t due = 0;
};

struct Dialled {
  char kind = 0;
  bool asked = false;
  std::string bytes;
};

struct Count {
  int begun = 0, done = 0, failed = 0;
};

void Must(long result, const char* what) {
  if (result >= 0) return;
  std::perror(what);
  ::_exit(1);
}

// In the container: a second child, since a process does not change its own pid namespace.
[[noreturn]] void JoinAndRun(const Target& target) {
  if (::setns(target.pidfd, kNamespaces) != 0) ::_exit(126);
  const pid_t child = ::vfork();
  if (child == 0) {
    ::execl("/probed", "/probed", "exec", target.file.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) ::_exit(125);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 124);
}

class Limit {
 public:
  explicit Limit(std::vector<Target> targets)
      : targets_(std::move(targets)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    Must(epoll_, "epoll_create1");
    const int64_t now = MonotonicNs();
    for (size_t i = 0; i < targets_.size(); ++i) {  // spread over the second
      targets_[i].due =
          now + static_cast<int64_t>(i) * kSecond / static_cast<int64_t>(targets_.size());
      if (targets_[i].kind != 'e') continue;
      targets_[i].pidfd = static_cast<int>(::syscall(SYS_pidfd_open, targets_[i].process, 0));
      Must(targets_[i].pidfd, "pidfd_open");
    }
  }

  Count Run(int64_t seconds) {
    const int64_t end = MonotonicNs() + seconds * kSecond;
    size_t next = 0;  // all have one period: their order stays
    while (MonotonicNs() < end) {
      for (; targets_[next].due <= MonotonicNs(); next = (next + 1) % targets_.size()) {
        targets_[next].due += kSecond;
        Begin(targets_[next]);
      }
      Wait(targets_[next].due - MonotonicNs());
      ReapAll();
    }
    return count_;
  }

 private:
  void Begin(const Target& target) {
    ++count_.begun;
    if (target.kind == 'e') {
      const pid_t child = ::fork();
      Must(child, "fork");
      if (child == 0) JoinAndRun(target);
      return;
    }
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    Must(fd, "socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(target.kind == 'h' ? 8080 : target.kind == 't' ? 8081 : 8082);
    ::inet_pton(AF_INET, target.address.c_str(), &address.sin_addr);
    (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    epoll_event event{.events = EPOLLOUT, .data = {.fd = fd}};
    Must(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
    dialled_[fd] = {target.kind, false, {}};
  }

  void Wait(int64_t ns) {
    std::array<epoll_event, 64> events;
    timespec time{0, std::max<int64_t>(ns, 0)};
    const long n =
        ::syscall(SYS_epoll_pwait2, epoll_, events.data(), events.size(), &time, nullptr, 0);
    for (long i = 0; i < n; ++i) Go(events[static_cast<size_t>(i)].data.fd);
  }

  void Close(int fd, bool done) {
    ++(done ? count_.done : count_.failed);
    ::close(fd);
    dialled_.erase(fd);
  }

  void Go(int fd) {
    Dialled& peer = dialled_.at(fd);
    if (!peer.asked) {
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0 || peer.kind == 't') return Close(fd, error == 0);
      const std::string question = peer.kind == 'h'
                                       ? "GET / HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n"
                                       : HealthQuestionBytes();
      (void)::send(fd, question.data(), question.size(), MSG_NOSIGNAL);
      peer.asked = true;
      epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
      Must(::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event), "epoll_ctl");
      return;
    }
    std::array<char, 4096> piece;
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n > 0) peer.bytes.append(piece.data(), static_cast<size_t>(n));
    if (peer.kind == 'h' && n <= 0) return Close(fd, peer.bytes.starts_with("HTTP/1.1 200"));
    if (peer.kind == 'h') return;
    bool answered = false;
    TakeFrames(peer.bytes, [&](Frame, uint8_t flags, uint32_t stream) {
      answered |= stream == 1 && (flags & kEndStream) != 0;
    });
    if (answered || n <= 0) Close(fd, answered);
  }

  void ReapAll() {
    int status = 0;
    while (::waitpid(-1, &status, WNOHANG) > 0) ++(status == 0 ? count_.done : count_.failed);
  }

  std::vector<Target> targets_;
  const int epoll_;
  std::map<int, Dialled> dialled_;
  Count count_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  if (argc != 2) return 2;
  std::vector<Target> targets;
  for (Target t; std::cin >> t.kind >> t.address >> t.process >> t.file;) targets.push_back(t);
  if (targets.empty()) return 2;
  // SIGCHLD ends the wait, so that an exec's end is seen at once.
  ::signal(SIGCHLD, [](int) {});
  const Count count = Limit(std::move(targets)).Run(std::atoll(argv[1]));
  std::cout << count.begun << ' ' << count.done << ' ' << count.failed << '\n';
}
