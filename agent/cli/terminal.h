// SPDX-License-Identifier: Apache-2.0
// RawTerminal: the user's terminal without line editing, echo and signals, as long as it lives.
// Put back by the destructor and, when the program is ended by a signal, by a handler.
// One at a time, main thread.
#pragma once

#include <termios.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

class RawTerminal {
 public:
  static Result<RawTerminal> Enter(int fd);
  RawTerminal(RawTerminal&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawTerminal& operator=(RawTerminal&&) = delete;
  ~RawTerminal();

 private:
  explicit RawTerminal(int fd) : fd_(fd) {}
  int fd_;
};

struct TerminalSize {
  uint16_t rows = 0;
  uint16_t columns = 0;
};
std::optional<TerminalSize> SizeOf(int fd);

// Finds ^P^Q in what is typed. A ^P is held back until the next key shows what it was.
class DetachFilter {
 public:
  // What to send of `typed`; sets detached().
  std::string Pass(std::string_view typed);
  bool detached() const { return detached_; }

 private:
  bool held_ = false;
  bool detached_ = false;
};

}  // namespace holdfast::agent::cli
