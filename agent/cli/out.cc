// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/out.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "agent/cli/session.h"

namespace holdfast::agent::cli {
namespace {

std::mutex g_mutex;       // followers of several logs write at the same time
int g_first_failure = 0;  // errno

}  // namespace

bool Write(std::string_view text) {
  const std::lock_guard lock(g_mutex);
  while (!text.empty() && g_first_failure == 0) {
    const ssize_t count = ::write(STDOUT_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // a terminal that another program has left non-blocking
      pollfd fd{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      (void)::poll(&fd, 1, -1);  // interrupted: tried again
    } else if (errno != EINTR) {
      g_first_failure = errno;
    }
  }
  return g_first_failure == 0;
}

void Print(std::string_view text) { (void)Write(text); }

int FinishOutput(int code) {
  const std::lock_guard lock(g_mutex);
  return g_first_failure == 0 ? code : Report(Error::FromErrno(g_first_failure, "write stdout"));
}

}  // namespace holdfast::agent::cli
