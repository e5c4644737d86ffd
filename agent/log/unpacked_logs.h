// SPDX-License-Identifier: Apache-2.0
// UnpackedLogs: compressed log files as their readers need them, in memory: one copy of each file
// for all who read it, and a bound on all copies together. Thread-safe; copies may outlive it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

// Read with pread(2); shared by its readers.
using LogFile = std::shared_ptr<const UniqueFd>;

class UnpackedLogs {
 public:
  explicit UnpackedLogs(uint64_t most_bytes)
      : most_bytes_(most_bytes), bytes_(std::make_shared<std::atomic<uint64_t>>(0)) {}

  // The content of the gzip file `packed`. kResourceExhausted: it is larger than 256 MiB, or all
  // that is unpacked is larger than it may be.
  Result<LogFile> Open(UniqueFd packed, const std::string& name);

  uint64_t bytes() const { return *bytes_; }

 private:
  // A file that was replaced may have the inode number of the former one.
  using Key = std::tuple<dev_t, ino_t, off_t, int64_t>;

  LogFile Find(const Key& key);

  const uint64_t most_bytes_;
  std::shared_ptr<std::atomic<uint64_t>> bytes_;  // shared with the copies
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const UniqueFd>> files_;  // guarded by mutex_
};

}  // namespace holdfast::agent
