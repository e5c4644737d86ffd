// SPDX-License-Identifier: Apache-2.0
// Runs inside a container and writes what a test can check byte by byte.
//   lines PAUSE_US CODE [COUNT [stays]]  numbered lines "out N xxx…" of about 100 bytes on stdout, every tenth also
//                                        "err N" on stderr; until SIGTERM or COUNT lines (`stays`: all of these, and
//                                        then until SIGTERM), then exit CODE
//   pieces PAUSE_US CODE                 numbered lines, each written in three pieces; SIGTERM leaves a last line
//                                        "tail" without newline
//   exit CODE                            exits at once
//   sleep CODE                           until SIGTERM
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

namespace {

volatile std::sig_atomic_t stopping = 0;

void WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0) continue;  // EINTR
    data += n;
    size -= static_cast<size_t>(n);
  }
}

void Pause(long microseconds) {
  if (microseconds > 0) ::usleep(static_cast<useconds_t>(microseconds));
}

// The signal ends a sleep; what comes just before one is seen after it.
void WaitForSigterm() {
  while (stopping == 0) ::usleep(10000);
}

void Lines(long pause, long count, bool stays) {
  char line[128];
  for (long n = 0; (stopping == 0 || stays) && (count == 0 || n < count); ++n) {
    const int head = std::snprintf(line, sizeof line, "out %ld ", n);
    std::memset(line + head, 'x', static_cast<size_t>(99 - head));
    line[99] = '\n';
    WriteAll(1, line, 100);
    if (n % 10 == 0) {
      const int size = std::snprintf(line, sizeof line, "err %ld\n", n / 10);
      WriteAll(2, line, static_cast<size_t>(size));
    }
    Pause(pause);
  }
  if (stays) WaitForSigterm();
}

void Pieces(long pause) {
  for (long n = 0; stopping == 0; ++n) {
    const std::string number = std::to_string(n);
    WriteAll(1, "out", 3);
    Pause(pause);
    WriteAll(1, " ", 1);
    Pause(pause);
    WriteAll(1, (number + "\n").c_str(), number.size() + 1);
  }
  WriteAll(1, "tail", 4);
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action{};
  action.sa_handler = [](int) { stopping = 1; };
  ::sigaction(SIGTERM, &action, nullptr);
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::strtol(argv[i], nullptr, 10) : 0; };
  if (mode == "exit") return static_cast<int>(number(2));
  if (mode == "sleep") {
    WaitForSigterm();
    return static_cast<int>(number(2));
  }
  if (mode == "lines") Lines(number(2), number(4), argc > 5);
  if (mode == "pieces") Pieces(number(2));
  return static_cast<int>(number(3));
}
