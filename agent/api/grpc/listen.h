// SPDX-License-Identifier: Apache-2.0
// ApiSocket: the listening unix stream socket and the lock that says it is ours.
#pragma once

#include <sys/types.h>

#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::api {

// Owner of <path> and <path>.lock; the destructor removes the socket file while the lock is held.
class ApiSocket {
 public:
  // The directory is made when missing and gets search permission for all (0711). A socket file
  // that nobody holds the lock of and nobody answers on is replaced; anything else at `path` is
  // kConflict. Mode 0660, owner root:`group`.
  static Result<ApiSocket> Listen(const std::string& path, gid_t group);

  ApiSocket(ApiSocket&&) = default;
  ApiSocket& operator=(ApiSocket&&) = delete;
  ~ApiSocket();

  int fd() const { return socket_.get(); }

 private:
  ApiSocket(DirFd directory, std::string name, UniqueFd lock, UniqueFd socket);

  DirFd directory_;
  std::string name_;
  UniqueFd lock_;  // flock, held as long as the socket listens
  UniqueFd socket_;
};

}  // namespace holdfast::agent::api
