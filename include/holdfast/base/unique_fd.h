// SPDX-License-Identifier: Apache-2.0
// UniqueFd: sole owner of one file descriptor; closes it on destruction and on reassignment.
// DirFd, PidFd, NsFd and MountFd are the same with a name that says what the descriptor refers to.
#pragma once

#include <unistd.h>

#include <utility>

namespace holdfast {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }

  // Gives the descriptor away; the caller closes it.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

  // Closes what is held. close(2) is not retried on EINTR: on Linux the descriptor is gone then
  // too.
  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// A directory, opened with O_PATH or O_RDONLY; first parameter of every *At function.
class DirFd : public UniqueFd {
 public:
  using UniqueFd::UniqueFd;
};

// A process (pidfd_open(2), CLONE_PIDFD); a pid number is only for display.
class PidFd : public UniqueFd {
 public:
  using UniqueFd::UniqueFd;
};

// A namespace (/proc/PID/ns/…).
class NsFd : public UniqueFd {
 public:
  using UniqueFd::UniqueFd;
};

// A detached mount (open_tree(2), fsmount(2)) until move_mount(2).
class MountFd : public UniqueFd {
 public:
  using UniqueFd::UniqueFd;
};

}  // namespace holdfast
