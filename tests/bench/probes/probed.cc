// SPDX-License-Identifier: Apache-2.0
// bench_probed serve FILE: answers HTTP on 8080, TCP on 8081, gRPC's health protocol on 8082, one thread for all, and
// writes down when each of them came. bench_probed exec FILE: what an exec probe runs; does the same of itself.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "beat.h"
#include "health_wire.h"

namespace holdfast::bench {
namespace {

void Must(long result, const char* what) {
  if (result >= 0) return;
  std::perror(what);
  ::_exit(1);
}

// A listening socket's kind, or a connection's, and what came of it so far.
struct Peer {
  char kind = 0;
  bool listens = false;
  bool greeted = false;  // of gRPC: its preface is read
  std::string bytes;
};

class Server {
 public:
  explicit Server(int beats) : beats_(beats), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    Must(epoll_, "epoll_create1");
  }

  void Listen(uint16_t port, char kind) {
    const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    Must(fd, "socket");
    sockaddr_in6 address{};  // of both families
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    Must(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
    Must(::listen(fd, 64), "listen");
    Add(fd, {kind, true, false, {}});
  }

  [[noreturn]] void Serve() {
    while (true) {
      std::array<epoll_event, 16> events;
      const int n = ::epoll_wait(epoll_, events.data(), events.size(), -1);
      for (int i = 0; i < n; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        peers_.at(fd).listens ? Accept(fd) : Read(fd);
      }
    }
  }

 private:
  void Add(int fd, Peer peer) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    Must(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
    peers_[fd] = std::move(peer);
  }

  void Accept(int listener) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const char kind = peers_.at(listener).kind;
    (void)WriteBeat(beats_, kind);
    const int on = 1;  // as servers of gRPC do
    (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Add(fd, {kind, false, false, {}});
    if (kind == 'g') Say(fd, MakeFrame(kSettings, 0, 0, ""));
  }

  // Answers fit into a socket's buffer.
  static void Say(int fd, std::string_view bytes) {
    (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void Read(int fd) {
    std::array<char, 4096> piece;
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    Peer& peer = peers_.at(fd);
    if (n > 0) peer.bytes.append(piece.data(), static_cast<size_t>(n));
    if (n <= 0 || !Answer(fd, peer)) {
      ::close(fd);
      peers_.erase(fd);
    }
  }

  // False when all is said.
  static bool Answer(int fd, Peer& peer) {
    if (peer.kind == 't') return true;  // who connected closes
    if (peer.kind == 'h') {
      if (peer.bytes.find("\r\n\r\n") == std::string::npos) return true;
      Say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
      return false;
    }
    if (!peer.greeted && peer.bytes.size() < kPreface.size()) return true;
    if (!peer.greeted) peer.bytes.erase(0, kPreface.size());
    peer.greeted = true;
    TakeFrames(peer.bytes, [&](Frame type, uint8_t flags, uint32_t stream) {
      if (type == kSettings && (flags & kAck) == 0) Say(fd, MakeFrame(kSettings, kAck, 0, ""));
      if (type == kPing && (flags & kAck) == 0)
        Say(fd, MakeFrame(kPing, kAck, 0, std::string(8, '\0')));
      if ((type == kData || type == kHeaders) && (flags & kEndStream) != 0)
        Say(fd, ServingAnswer(stream));
    });
    return true;
  }

  const int beats_;
  const int epoll_;
  std::map<int, Peer> peers_;
};

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  if (argc != 3) return 2;
  const int beats = OpenBeats(argv[2]);
  Must(beats, argv[2]);
  if (argv[1] == std::string_view("exec")) return WriteBeat(beats, 'e') ? 0 : 1;
  ::signal(SIGTERM, [](int) { ::_exit(0); });
  Server server(beats);
  server.Listen(8080, 'h');
  server.Listen(8081, 't');
  server.Listen(8082, 'g');
  server.Serve();
}
