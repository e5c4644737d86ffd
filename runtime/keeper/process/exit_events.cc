// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/exit_events.h"

#include <arpa/inet.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace holdfast::runtime::keeper {
namespace {

constexpr size_t kMostProcesses = 2000;  // two instructions each, of BPF_MAXINSNS (4096)
constexpr int kReceiveBuffer = 1 << 20;
constexpr size_t kEvent = NLMSG_HDRLEN + sizeof(cn_msg);
constexpr size_t kWhat = kEvent + offsetof(proc_event, what);
constexpr size_t kThread = kEvent + offsetof(proc_event, event_data.exit.process_pid);
constexpr size_t kProcess = kEvent + offsetof(proc_event, event_data.exit.process_tgid);
constexpr size_t kStatus = kEvent + offsetof(proc_event, event_data.exit.exit_code);
// PROC_EVENT_EXIT; newer headers have it in an enumeration of its own.
constexpr uint32_t kExit = 0x80000000;

template <class T>
T At(std::string_view datagram, size_t offset) {
  T value;
  std::memcpy(&value, datagram.data() + offset, sizeof value);
  return value;
}

Result<void> LetThrough(int fd, std::span<const pid_t> processes) {
  processes = processes.first(std::min(processes.size(), kMostProcesses));
  std::vector<sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kWhat),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(kExit), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kProcess),
  };
  for (const pid_t process : processes) {
    code.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(static_cast<uint32_t>(process)), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    return Error::FromErrno(errno, "filter exit events");
  }
  return {};
}

Result<void> Subscribe(int fd) {
  const uint32_t operation = PROC_CN_MCAST_LISTEN;
  std::array<char, kEvent + sizeof operation> request{};
  nlmsghdr header{};
  header.nlmsg_len = request.size();
  header.nlmsg_type = NLMSG_DONE;
  cn_msg message{};
  message.id = {CN_IDX_PROC, CN_VAL_PROC};
  message.len = sizeof operation;
  std::memcpy(request.data(), &header, sizeof header);
  std::memcpy(request.data() + NLMSG_HDRLEN, &message, sizeof message);
  std::memcpy(request.data() + kEvent, &operation, sizeof operation);
  if (::send(fd, request.data(), request.size(), 0) < 0) {
    return Error::FromErrno(errno, "subscribe to exit events");
  }
  return {};
}

}  // namespace

std::optional<ExitEvent> ParseExitEvent(std::string_view datagram) {
  if (datagram.size() < kStatus + sizeof(uint32_t)) return std::nullopt;
  if (At<cb_id>(datagram, NLMSG_HDRLEN).idx != CN_IDX_PROC) return std::nullopt;
  if (At<uint32_t>(datagram, kWhat) != kExit) return std::nullopt;
  return ExitEvent{At<pid_t>(datagram, kThread), At<pid_t>(datagram, kProcess),
                   At<int>(datagram, kStatus)};
}

Result<ExitEvents> ExitEvents::Listen(std::span<const pid_t> processes) {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR));
  if (!fd) return Error::FromErrno(errno, "socket NETLINK_CONNECTOR");
  RETURN_IF_ERROR(LetThrough(fd.get(), processes));
  // Larger only where it is allowed; the default holds some hundred events.
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer);
  sockaddr_nl group{};
  group.nl_family = AF_NETLINK;
  group.nl_groups = CN_IDX_PROC;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&group), sizeof group) != 0) {
    return Error::FromErrno(errno, "bind exit events");
  }
  RETURN_IF_ERROR(Subscribe(fd.get()));
  return ExitEvents(std::move(fd));
}

std::vector<ExitEvent> ExitEvents::Receive() const {
  std::vector<ExitEvent> out;
  std::array<char, 1024> buffer;
  for (;;) {
    sockaddr_nl from{};
    socklen_t size = sizeof from;
    const ssize_t n = ::recvfrom(socket_.get(), buffer.data(), buffer.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 && (errno == EINTR || errno == ENOBUFS)) continue;
    if (n <= 0) return out;
    if (from.nl_pid != 0) continue;  // not the kernel's
    const auto event = ParseExitEvent({buffer.data(), static_cast<size_t>(n)});
    if (event) out.push_back(*event);
  }
}

}  // namespace holdfast::runtime::keeper
