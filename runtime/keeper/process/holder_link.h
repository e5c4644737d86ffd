// SPDX-License-Identifier: Apache-2.0
// HolderLink: how launcher and logger tell the holder something without ever waiting for it. What
// is lost because the holder is away is found again by its successor, which collects.
// Single-threaded.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/keeper/process/loop.h"

namespace holdfast::runtime::keeper {

class HolderLink {
 public:
  // `place` moves the connection's descriptor where its owner wants it (may be empty).
  using Place = std::function<Result<UniqueFd>(UniqueFd)>;
  HolderLink() = default;
  HolderLink(std::string socket_path, Place place)
      : path_(std::move(socket_path)), place_(std::move(place)) {}

  void Put(const std::string& key, std::span<const int> fds);
  void Drop(const std::string& key);
  // A holder is never older than the launcher that it started, so it knows the message.
  void Rename(const std::string& prefix, const std::string& other);
  // Says "I serve now" and watches from then on whether the holder that started this process lives.
  Result<void> Follow(Loop& loop, const std::string& role);
  bool HasHolder() const { return holder_.valid(); }

 private:
  // A pidfd of the parent process if that is the holder that answers, else invalid.
  PidFd OpenHolder();
  bool Connect();
  void Send(MessageType type, const std::string& payload, std::span<const int> fds);
  std::string path_;
  Place place_;
  UniqueFd socket_;
  PidFd holder_;  // invalid once it has ended
};

}  // namespace holdfast::runtime::keeper
