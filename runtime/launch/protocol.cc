// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/protocol.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "holdfast/sys/socket.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxText = 4096;
constexpr char kGo = 'G';

// Fixed part of every report; `step_size` bytes of step and then the text follow.
struct Header {
  uint8_t kind;
  uint8_t at_exec;
  uint8_t code;
  uint8_t step_size;
  int32_t sys_errno;
};
static_assert(sizeof(Header) == 8);

std::string Encode(const Header& header, const std::string& step, const std::string& text) {
  std::string data(sizeof header, '\0');
  std::memcpy(data.data(), &header, sizeof header);
  data.append(step, 0, header.step_size);
  data.append(text, 0, kMaxText);
  return data;
}

// Behind the filter, and the last thing that this process does: should the launcher be gone,
// SIGPIPE ends it a moment sooner.
void TellAtLast(int socket, const std::string& data) {
  while (::write(socket, data.data(), data.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace

void ReportPlain(int socket, ReportKind kind) {
  // A launcher that is gone sees nothing; the child finds out when it waits for "go".
  (void)sys::SendPacket(socket, Encode({static_cast<uint8_t>(kind), 0, 0, 0, 0}, "", ""));
}

void ReportWarning(int socket, const std::string& text) {
  const Header header{static_cast<uint8_t>(ReportKind::kWarning), 0, 0, 0, 0};
  (void)sys::SendPacket(socket, Encode(header, "", text));  // a warning may be lost
}

void ReportSuccessor(int socket, pid_t pid) {
  const Header header{static_cast<uint8_t>(ReportKind::kSuccessor), 0, 0, 0, 0};
  TellAtLast(socket, Encode(header, "", std::to_string(pid)));
}

void ReportFailure(int socket, const std::string& step, bool at_exec, const Error& error) {
  Header header{};
  header.kind = static_cast<uint8_t>(ReportKind::kFailure);
  header.at_exec = at_exec ? 1 : 0;
  header.code = static_cast<uint8_t>(error.code());
  header.step_size = static_cast<uint8_t>(step.size() > 255 ? 255 : step.size());
  header.sys_errno = error.sys_errno();
  TellAtLast(socket, Encode(header, step, error.message()));
}

Result<void> ReportDescriptors(int socket, ReportKind kind, const std::string& letters,
                               std::span<const int> fds) {
  return sys::SendPacket(socket, Encode({static_cast<uint8_t>(kind), 0, 0, 0, 0}, "", letters),
                         fds);
}

bool AwaitGo(int socket) {
  char message = 0;
  ssize_t n = 0;
  do {
    n = ::read(socket, &message, 1);
  } while (n < 0 && errno == EINTR);
  return n == 1 && message == kGo;
}

Result<void> SendGo(int socket) {
  return WithContext(sys::SendPacket(socket, std::string_view(&kGo, 1)), "send go");
}

Result<Report> ReceiveReport(int socket) {
  auto packet = sys::ReceivePacket(socket);
  Report report;
  if (!packet) {
    if (packet.error().sys_errno() == EAGAIN) return report;
    return std::move(packet.error());
  }
  if (packet->data.empty()) {
    report.kind = ReportKind::kEndOfFile;
    return report;
  }
  Header header{};
  if (packet->data.size() < sizeof header) return Internal("receive report: too short");
  std::memcpy(&header, packet->data.data(), sizeof header);
  if (header.kind < static_cast<uint8_t>(ReportKind::kUnshared) ||
      header.kind > static_cast<uint8_t>(ReportKind::kExecuting) ||
      header.code > static_cast<uint8_t>(Code::kInternal) ||
      packet->data.size() < sizeof header + header.step_size) {
    return Internal("receive report: malformed");
  }
  report.kind = static_cast<ReportKind>(header.kind);
  report.at_exec = header.at_exec != 0;
  report.code = static_cast<Code>(header.code);
  report.sys_errno = header.sys_errno;
  report.step = packet->data.substr(sizeof header, header.step_size);
  report.text = packet->data.substr(sizeof header + header.step_size);
  report.fds = std::move(packet->fds);
  return report;
}

}  // namespace holdfast::runtime
