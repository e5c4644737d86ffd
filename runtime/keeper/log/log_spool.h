// SPDX-License-Identifier: Apache-2.0
// LogSpool: the file in the run directory that holds what left a pipe and is not yet in the log.
// The kernel moves the bytes and notes how far, in one system call (the cell, see log_journal.h),
// so a kill leaves no doubt. The file is filled from its beginning again and again: its pages are
// used many times, instead of being allocated and freed for each byte that passes. Single-threaded.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

class LogSpool {
 public:
  enum class Taken : uint8_t { kSome, kNothing, kEnd };

  // `dir` is borrowed and must outlive the spool. The file is opened on demand.
  LogSpool(int dir, std::string name) : dir_(dir), name_(std::move(name)) {}

  // Moves at most `limit` bytes from a non-blocking pipe to offset *cell and advances it.
  // kEnd: every writer is gone.
  Result<Taken> TakeFrom(int pipe, size_t limit, off64_t* cell);
  Result<void> Read(uint64_t offset, std::span<char> out);
  Result<void> Write(uint64_t offset, std::span<const char> bytes);
  // Cuts the file off: gives memory back.
  Result<void> Truncate(uint64_t size);
  Result<uint64_t> FileSize();
  // Closes the descriptor until it is needed again.
  void CloseIdle() { fd_.Reset(); }

 private:
  Result<void> EnsureOpen();
  int dir_;
  std::string name_;
  UniqueFd fd_;
};

}  // namespace holdfast::runtime::keeper
