// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/acceptor.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr int kFirstNumber = 256;
constexpr int kLastNumber = 2047;
constexpr std::string_view kPeerPrefix = "fd:";

Result<void> Watch(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return Error::FromErrno(errno, "epoll_ctl add");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Create(int listener, RoleTable roles,
                                                   uint32_t connections_per_uid, Serve serve,
                                                   Refused refused) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error::FromErrno(errno, "epoll_create1");
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return Error::FromErrno(errno, "eventfd");
  RETURN_IF_ERROR(Watch(epoll.get(), listener, EPOLLIN));
  RETURN_IF_ERROR(Watch(epoll.get(), stop.get(), EPOLLIN));
  return std::unique_ptr<Acceptor>(new Acceptor(listener, std::move(roles), connections_per_uid,
                                                std::move(serve), std::move(refused),
                                                std::move(epoll), std::move(stop)));
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

Acceptor::Acceptor(int listener, RoleTable roles, uint32_t connections_per_uid, Serve serve,
                   Refused refused, UniqueFd epoll, UniqueFd stop)
    : listener_(listener),
      roles_(std::move(roles)),
      connections_per_uid_(connections_per_uid),
      serve_(std::move(serve)),
      refused_(std::move(refused)),
      epoll_(std::move(epoll)),
      stop_(std::move(stop)),
      next_number_(kFirstNumber) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  // An eventfd write of 1 cannot fail short of 2^64 of them.
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void Acceptor::Run() {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      if (fd == listener_) {
        AcceptAll();
      } else {
        Forget(fd);
      }
    }
  }
}

void Acceptor::AcceptAll() {
  while (true) {
    UniqueFd connection(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      Admit(std::move(connection));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;  // EAGAIN: all taken; EMFILE: level-triggered, tried again when one is free
    }
  }
}

void Acceptor::Admit(UniqueFd connection) {
  auto peer = ReadPeer(connection.get());
  if (!peer) {
    const auto credentials =
        Peer{.uid = static_cast<uid_t>(-1), .pid = 0, .groups = {}, .permitted = {}};
    return refused_(credentials, peer.error().message());
  }
  peer->permitted = OperationsOf(roles_, peer->uid, peer->groups);
  if (peer->permitted.empty()) return refused_(*peer, "no role");
  uint32_t& count = per_uid_[peer->uid];
  if (count >= connections_per_uid_) {
    return refused_(*peer, StrCat("more than ", connections_per_uid_, " connections"));
  }
  auto handed_on = DuplicateForServe(connection.get());
  if (!handed_on) return refused_(*peer, handed_on.error().message());
  const int monitor = connection.get();
  const int number = handed_on->get();
  if (auto watched = Watch(epoll_.get(), monitor, EPOLLRDHUP); !watched) {
    return refused_(*peer, watched.error().message());
  }
  ++count;
  open_.emplace(monitor, Open{std::move(connection), peer->uid, number});
  const OperationSet permitted = peer->permitted;
  {
    const std::lock_guard lock(mutex_);
    peers_[number] = std::move(*peer);
    ++open_count_;
  }
  serve_(std::move(*handed_on), permitted);
}

Result<UniqueFd> Acceptor::DuplicateForServe(int connection) {
  UniqueFd copy(::fcntl(connection, F_DUPFD_CLOEXEC, next_number_));
  if (!copy && errno == EINVAL) {  // a limit on open files below our range
    copy.Reset(::fcntl(connection, F_DUPFD_CLOEXEC, 0));
  }
  if (!copy) return Error::FromErrno(errno, "duplicate a connection");
  next_number_ = copy.get() >= kLastNumber ? kFirstNumber : copy.get() + 1;
  return copy;
}

void Acceptor::Forget(int monitor) {
  const auto found = open_.find(monitor);
  if (found == open_.end()) return;
  if (const auto count = per_uid_.find(found->second.uid); --count->second == 0) {
    per_uid_.erase(count);
  }
  const std::lock_guard lock(mutex_);
  --open_count_;
  // The entry in peers_ stays until its number is used again: a call that came in before the end of
  // the connection may still be about to ask.
  open_.erase(found);
}

std::optional<Peer> Acceptor::PeerOf(const std::string& grpc_peer) const {
  if (!grpc_peer.starts_with(kPeerPrefix)) return std::nullopt;
  int number = -1;
  const char* end = grpc_peer.data() + grpc_peer.size();
  const auto parsed = std::from_chars(grpc_peer.data() + kPeerPrefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(number);
  if (found == peers_.end()) return std::nullopt;
  return found->second;
}

size_t Acceptor::ConnectionCount() const {
  const std::lock_guard lock(mutex_);
  return open_count_;
}

}  // namespace holdfast::agent::api
