// SPDX-License-Identifier: Apache-2.0
// NftWatch: tells that somebody else touched one of our tables. A hint to call Repair(), no more:
// what a lost notification would have told, the periodic Repair() finds. Bound to the network
// namespace of the thread that opened it. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::netproxy::nft {

class NftWatch {
 public:
  // `own_port` is the one sender whose changes are not reported (they are filtered in the kernel).
  // `receive_bytes` bounds what waits unread; 0: the system's default.
  static Result<NftWatch> Open(const std::string& table, uint32_t own_port, int receive_bytes = 0);

  // Readable when there is something to Drain().
  int fd() const { return fd_.get(); }
  // Takes all that waits. True when the table was touched in either family, or when notifications
  // were lost, so that it may have been.
  Result<bool> Drain();

 private:
  NftWatch(std::string table, UniqueFd fd) : table_(std::move(table)), fd_(std::move(fd)) {}

  std::string table_;
  UniqueFd fd_;
};

}  // namespace holdfast::netproxy::nft
