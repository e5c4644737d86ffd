// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/pause_point.h"

#ifdef HOLDFAST_PAUSE_POINTS

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace holdfast::sys {
namespace {

struct Armed {
  std::string_view name;
  long passage = 1;
  const char* dir = nullptr;
};

Armed ReadEnvironment() {
  Armed armed;
  const char* at = std::getenv("HOLDFAST_PAUSE_AT");
  armed.dir = std::getenv("HOLDFAST_PAUSE_DIR");
  if (at == nullptr || armed.dir == nullptr) return armed;
  const std::string_view text(at);
  const size_t colon = text.find(':');
  armed.name = text.substr(0, colon);
  if (colon != std::string_view::npos) armed.passage = std::strtol(at + colon + 1, nullptr, 10);
  return armed;
}

// No allocation and only async-signal-safe calls: points lie between clone and exec too.
void AppendPassed(const char* dir, const char* name) {
  char path[4096];
  std::snprintf(path, sizeof path, "%s/passed.%d", dir, ::getpid());
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  char line[256];
  const int n = std::snprintf(line, sizeof line, "%s\n", name);
  [[maybe_unused]] const ssize_t written = ::write(fd, line, static_cast<size_t>(n));
  ::close(fd);
}

void StopHere(const char* dir, const char* name) {
  char path[4096];
  std::snprintf(path, sizeof path, "%s/%s.%d", dir, name, ::getpid());
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd >= 0) ::close(fd);
  ::kill(::getpid(), SIGSTOP);
}

// Of all processes that arrive only one can rename the file, so only one stops.
void StopIfArmed(const char* dir, const char* name) {
  char armed[4096];
  char stopped[4096];
  std::snprintf(armed, sizeof armed, "%s/armed/%s", dir, name);
  std::snprintf(stopped, sizeof stopped, "%s/%s.%d", dir, name, ::getpid());
  if (::rename(armed, stopped) == 0) ::kill(::getpid(), SIGSTOP);
}

}  // namespace

void ReachPausePoint(const char* name) {
  static const Armed armed = ReadEnvironment();
  static std::atomic<long> passages{0};
  if (armed.name.empty()) return;
  if (armed.name == "?") {
    AppendPassed(armed.dir, name);
  } else if (armed.name == "@") {
    StopIfArmed(armed.dir, name);
  } else if (armed.name == name && ++passages == armed.passage) {
    StopHere(armed.dir, name);
  }
}

}  // namespace holdfast::sys

#endif
