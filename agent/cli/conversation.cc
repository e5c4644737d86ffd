// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/conversation.h"

#include <cstdio>

namespace holdfast::agent::cli {
namespace {

int g_wake = -1;  // signal handlers and the main thread write one byte into it

void WakeSender(int signal) {
  const auto byte = static_cast<unsigned char>(signal);
  (void)!::write(g_wake, &byte, 1);  // a full pipe: the sender is awake already
}

}  // namespace

bool HasTerminalForTty() {
  if (::isatty(STDIN_FILENO) != 0) return true;
  std::fprintf(stderr, "Unable to use a TTY - input is not a terminal or the right kind of file\n");
  return false;
}

SenderWake::SenderWake(UniqueFd read, UniqueFd write)
    : read_(std::move(read)), write_(std::move(write)) {
  g_wake = write_.get();
}

// The handlers stay: what they write from now on goes nowhere, and to nobody's new descriptor.
SenderWake::~SenderWake() {
  if (write_.valid()) g_wake = -1;
}

Result<SenderWake> SenderWake::Make() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe");
  return SenderWake(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

void SenderWake::Catch(int signal) {
  struct sigaction action{};
  action.sa_handler = WakeSender;
  action.sa_flags = SA_RESTART;
  (void)::sigaction(signal, &action, nullptr);  // cannot fail for these signals
}

void SenderWake::End() { WakeSender(0); }

std::optional<int> SenderWake::Take() const {
  unsigned char byte = 0;
  if (::read(read_.get(), &byte, 1) != 1 || byte == 0) return std::nullopt;
  return byte;
}

void PrintError(const std::string& data) {
  std::fwrite(data.data(), 1, data.size(), stderr);
  std::fflush(stderr);
}

}  // namespace holdfast::agent::cli
