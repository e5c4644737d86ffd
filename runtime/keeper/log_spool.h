// SPDX-License-Identifier: Apache-2.0
// LogSpool: bytes that left a pipe and are not yet in the log file. A file in the run directory;
// its size says how many bytes were ever taken (the kernel moves them, so a kill leaves no doubt),
// and what is committed is punched out of it. Single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

class LogSpool {
 public:
  enum class Taken : uint8_t { kSome, kNothing, kEnd };

  // `dir` is borrowed and must outlive the spool. The file is opened on demand.
  LogSpool(int dir, std::string name) : dir_(dir), name_(std::move(name)) {}

  // Makes it if it is missing, learns its size.
  Result<void> Open();
  // Moves at most `limit` bytes from a non-blocking pipe. kEnd: every writer is gone.
  Result<Taken> TakeFrom(int pipe, size_t limit);
  // Bytes [begin, begin + out.size()), which must have been taken.
  Result<void> Read(uint64_t begin, std::span<char> out);
  // Gives the memory of [.., done) back once it is worth a call, or in any case with `all`.
  void Release(uint64_t done, bool all);
  // Closes the descriptor until it is needed again.
  void CloseIdle() { fd_.Reset(); }

  uint64_t size() const { return size_; }

 private:
  Result<void> EnsureOpen();
  int dir_;
  std::string name_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  uint64_t released_ = 0;
};

}  // namespace holdfast::runtime::keeper
