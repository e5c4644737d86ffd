// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/terminal.h"

#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace holdfast::agent::cli {
namespace {

constexpr std::array kFatalSignals = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                      SIGABRT, SIGSEGV, SIGBUS,  SIGPIPE};
constexpr char kControlP = 0x10;
constexpr char kControlQ = 0x11;

// Read by the signal handler, hence not in an object. Written before the handler is installed.
int g_terminal = -1;
termios g_before{};

// Only async-signal-safe calls: tcsetattr(3) is one, and so is raise(3).
void RestoreAndDie(int signal) {
  (void)::tcsetattr(g_terminal, TCSADRAIN, &g_before);
  (void)::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

}  // namespace

Result<RawTerminal> RawTerminal::Enter(int fd) {
  if (::tcgetattr(fd, &g_before) != 0) return Error::FromErrno(errno, "read the terminal's mode");
  g_terminal = fd;
  for (const int signal : kFatalSignals) {
    struct sigaction action{};
    action.sa_handler = RestoreAndDie;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    (void)::sigaction(signal, &action, nullptr);  // cannot fail for these signals
  }
  termios raw = g_before;
  ::cfmakeraw(&raw);
  if (::tcsetattr(fd, TCSADRAIN, &raw) != 0) {
    return Error::FromErrno(errno, "set the terminal's mode");
  }
  return RawTerminal(fd);
}

RawTerminal::~RawTerminal() {
  if (fd_ < 0) return;
  (void)::tcsetattr(fd_, TCSADRAIN, &g_before);  // a terminal that is gone needs no mode
  for (const int signal : kFatalSignals) (void)::signal(signal, SIG_DFL);
}

std::optional<TerminalSize> SizeOf(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return std::nullopt;
  return TerminalSize{size.ws_row, size.ws_col};
}

std::string DetachFilter::Pass(std::string_view typed) {
  std::string out;
  for (const char c : typed) {
    if (held_) {
      held_ = false;
      if (c == kControlQ) {
        detached_ = true;
        return out;
      }
      out.push_back(kControlP);
    }
    if (c == kControlP) {
      held_ = true;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace holdfast::agent::cli
