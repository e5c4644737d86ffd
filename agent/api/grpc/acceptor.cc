// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/acceptor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "agent/api/grpc/places.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::api {
namespace {

// Connections that are only being told why they end.
constexpr size_t kMaxFarewells = 64;
// A connection that moved so much leaves free memory that the allocator keeps. It is given back
// once, so long after the first such end: gRPC takes its time with what a connection held.
constexpr uint64_t kMuch = 1 << 20;
constexpr std::chrono::seconds kTidyDelay{2};
constexpr std::chrono::milliseconds kAcceptPause{200};

// What epoll calls a descriptor: a connection's id and its side; or one of the two below, where no
// connection's id is 0.
constexpr uint64_t kListenerKey = 0;
constexpr uint64_t kWakeKey = 1;
constexpr uint64_t kFirstId = 1;

uint64_t KeyOf(uint64_t id, Connection::Side side) { return id << 1 | static_cast<uint64_t>(side); }

bool IsReadable(const Connection& connection) {
  pollfd client{connection.fd(Connection::Side::kClient), POLLIN, 0};
  return ::poll(&client, 1, 0) == 1;
}

Result<void> Control(int epoll, int operation, int fd, uint32_t events, uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) return Error::FromErrno(errno, "epoll_ctl");
  return {};
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Create(int listener, access::RoleTable roles,
                                                   ConnectionLimits limits, Serve serve,
                                                   Refused refused, Tidy tidy, Rest rest) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Error::FromErrno(errno, "epoll_create1");
  ASSIGN_OR_RETURN(sys::Wakeup wake, sys::Wakeup::Make());
  RETURN_IF_ERROR(Control(epoll.get(), EPOLL_CTL_ADD, listener, EPOLLIN, kListenerKey));
  RETURN_IF_ERROR(Control(epoll.get(), EPOLL_CTL_ADD, wake.fd(), EPOLLIN, kWakeKey));
  return std::unique_ptr<Acceptor>(
      new Acceptor(listener, std::move(roles), limits, std::move(serve), std::move(refused),
                   std::move(tidy), std::move(rest), std::move(epoll), std::move(wake)));
}

Result<void> Acceptor::Start() {
  ASSIGN_OR_RETURN(thread_, sys::StartThread("api-accept", [this] { Run(); }));
  return {};
}

Acceptor::Acceptor(int listener, access::RoleTable roles, ConnectionLimits limits, Serve serve,
                   Refused refused, Tidy tidy, Rest rest, UniqueFd epoll, sys::Wakeup wake)
    : listener_(listener),
      roles_(std::move(roles)),
      limits_(limits),
      serve_(std::move(serve)),
      refused_(std::move(refused)),
      tidy_(std::move(tidy)),
      rest_(std::move(rest)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      spare_(::eventfd(0, EFD_CLOEXEC)),
      rest_at_(std::chrono::steady_clock::now() + limits.rest),
      next_id_(kFirstId) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::StopAccepting() {
  if (!thread_.joinable()) return;
  accepting_ = false;
  wake_.Set();
  std::unique_lock lock(mutex_);
  deaf_.wait(lock, [this] { return is_deaf_; });
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.Set();
  thread_.join();
}

void Acceptor::Run() {
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), TimeoutMs());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      const uint64_t key = event.data.u64;
      if (key == kListenerKey) {
        AcceptAll();
      } else if (key != kWakeKey) {
        OnEvents(key >> 1, static_cast<Connection::Side>(key & 1), event.events);
      } else if (!OnWake()) {
        return;
      }
    }
    OnDeadlines(std::chrono::steady_clock::now());
  }
}

bool Acceptor::OnWake() {
  wake_.Clear();
  const std::lock_guard lock(mutex_);
  is_deaf_ = stopping_ || !accepting_;
  deaf_.notify_all();
  if (stopping_) {
    for (auto& [id, entry] : entries_) entry.connection.Drain(scratch_);
    entries_.clear();
    open_count_ = 0;
    return false;
  }
  if (!is_deaf_) return true;
  accept_at_.reset();
  rest_at_.reset();
  // It fails where the listener is not there: a second time, and while accepting pauses.
  (void)Control(epoll_.get(), EPOLL_CTL_DEL, listener_, 0, kListenerKey);
  return true;
}

void Acceptor::AcceptAll() {
  while (accepting_) {
    UniqueFd client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (client) {
      Admit(std::move(client));
    } else if (errno == EAGAIN) {
      return;  // all taken
    } else if ((errno == EMFILE || errno == ENFILE) && spare_) {
      // Out of descriptors the kernel does not say whether anybody waits at all.
      if (!TurnAwayWithSpare()) return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return PauseAccepting();  // EMFILE without a spare, ENOMEM, …
    }
  }
}

// Left in the queue, a client would wait for nothing and epoll tell of it without end.
bool Acceptor::TurnAwayWithSpare() {
  spare_.Reset();
  UniqueFd client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  const access::Peer unknown{
      .uid = static_cast<uid_t>(-1), .pid = 0, .groups = {}, .permitted = {}};
  const bool waited = client.valid();
  if (waited) refused_(unknown, "no descriptor is free");
  // Closed before the new spare is made: there is room for one of them only.
  client.Reset();
  spare_.Reset(::eventfd(0, EFD_CLOEXEC));
  return waited;
}

// epoll would tell of those who wait without end.
void Acceptor::PauseAccepting() {
  // Not there: StopAccepting() was faster.
  if (!Control(epoll_.get(), EPOLL_CTL_DEL, listener_, 0, kListenerKey)) return;
  accept_at_ = std::chrono::steady_clock::now() + kAcceptPause;
}

void Acceptor::Admit(UniqueFd client) {
  access::Peer nobody{.uid = static_cast<uid_t>(-1), .pid = 0, .groups = {}, .permitted = {}};
  auto peer = access::ReadPeer(client.get());
  if (!peer) return Refuse(std::move(client), std::move(nobody), peer.error().message());
  peer->permitted = access::OperationsOf(roles_, peer->uid, peer->groups);
  if (peer->permitted.empty()) {
    return Refuse(
        std::move(client), *peer,
        StrCat("no role: uid ", peer->uid, " is neither root nor in a group of the agent"));
  }
  if (auto room = MakeRoomFor(peer->uid); !room) {
    return Refuse(std::move(client), std::move(*peer), room.error().message());
  }
  const access::Peer who = *peer;
  if (auto begun = Begin(std::move(client), std::move(*peer)); !begun) {
    refused_(who, begun.error().message());
  }
}

Result<void> Acceptor::MakeRoomFor(uid_t uid) {
  std::vector<Occupant> occupants;
  for (const auto& [id, entry] : entries_) {
    const Connection& c = entry.connection;
    if (!entry.counted || c.peer().uid != uid) continue;
    occupants.push_back({id, c.peer().pid, c.IsIdle(), c.EverCalled(), c.began(), c.last_use()});
  }
  ASSIGN_OR_RETURN(const std::optional<Leaving> leaving,
                   MakeRoom(uid, std::move(occupants), limits_, std::chrono::steady_clock::now()));
  if (leaving) TurnAway(leaving->id, entries_.at(leaving->id), leaving->code, leaving->text);
  return {};
}

Result<void> Acceptor::Begin(UniqueFd client, access::Peer peer) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  UniqueFd ours(ends[0]);
  ASSIGN_OR_RETURN(UniqueFd theirs, peers_.Enter(UniqueFd(ends[1]), peer));
  const access::OperationSet permitted = peer.permitted;
  {
    const std::lock_guard lock(mutex_);
    ++open_count_;
  }
  rest_at_.reset();
  const Id id = next_id_++;
  const auto [it, added] = entries_.try_emplace(
      id, Entry{.connection =
                    Connection(std::move(client), std::move(ours), std::move(peer), limits_.streams,
                               limits_.handshake, std::chrono::steady_clock::now()),
                .watched = {},
                .deadline = {},
                .counted = true});
  Update(id, it->second);
  if (auto served = serve_(std::move(theirs), permitted); !served) {
    TurnAway(id, it->second, http2::ErrorCode::kEnhanceYourCalm, served.error().message());
    return served;
  }
  return {};
}

void Acceptor::Refuse(UniqueFd client, access::Peer peer, const std::string& text) {
  refused_(peer, text);
  const auto farewells = std::count_if(entries_.begin(), entries_.end(),
                                       [](const auto& entry) { return !entry.second.counted; });
  if (static_cast<size_t>(farewells) >= kMaxFarewells) return;
  const auto now = std::chrono::steady_clock::now();
  const Id id = next_id_++;
  const auto [it, added] = entries_.try_emplace(
      id, Entry{.connection = Connection(std::move(client), UniqueFd(), std::move(peer),
                                         limits_.streams, limits_.handshake, now),
                .watched = {},
                .deadline = {},
                .counted = false});
  it->second.connection.TurnAway(http2::ErrorCode::kEnhanceYourCalm, text, now);
  Update(id, it->second);
}

void Acceptor::OnEvents(Id id, Connection::Side side, uint32_t events) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;  // ended by an event before it
  Entry& entry = found->second;
  const auto violation =
      entry.connection.OnEvents(side, events, scratch_, std::chrono::steady_clock::now());
  if (!violation) return Update(id, entry);
  refused_(entry.connection.peer(), violation->text);
  TurnAway(id, entry, violation->code, violation->text);
}

void Acceptor::TurnAway(Id id, Entry& entry, http2::ErrorCode code, const std::string& text) {
  // Closed by us, the server's side leaves epoll by itself.
  entry.watched[static_cast<size_t>(Connection::Side::kServer)].reset();
  entry.connection.TurnAway(code, text, std::chrono::steady_clock::now());
  Update(id, entry);
}

void Acceptor::Update(Id id, Entry& entry) {
  Connection& connection = entry.connection;
  if (connection.finished() || connection.turned_away()) Uncount(entry);
  if (entry.deadline) deadlines_.erase({*entry.deadline, id});
  if (connection.finished()) {
    entries_.erase(id);
    return;
  }
  entry.deadline = connection.deadline();
  if (entry.deadline) deadlines_.insert({*entry.deadline, id});
  for (const auto side : {Connection::Side::kClient, Connection::Side::kServer}) {
    Watch(id, entry, side, connection.Wanted(side));
  }
}

void Acceptor::Watch(Id id, Entry& entry, Connection::Side side, std::optional<uint32_t> wanted) {
  std::optional<uint32_t>& watched = entry.watched[static_cast<size_t>(side)];
  if (watched == wanted) return;
  const int operation = !wanted ? EPOLL_CTL_DEL : watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  // Only a lack of memory or the limit on watches can refuse. Then the deadline must end it.
  if (!Control(epoll_.get(), operation, entry.connection.fd(side), wanted.value_or(0),
               KeyOf(id, side)) &&
      !entry.deadline) {
    entry.deadline = std::chrono::steady_clock::now();
    deadlines_.insert({*entry.deadline, id});
  }
  watched = wanted;
}

void Acceptor::Uncount(Entry& entry) {
  if (!std::exchange(entry.counted, false)) return;
  if (!tidy_at_ && entry.connection.moved() >= kMuch) {
    tidy_at_ = std::chrono::steady_clock::now() + kTidyDelay;
  }
  const std::lock_guard lock(mutex_);
  if (--open_count_ == 0 && !is_deaf_) rest_at_ = std::chrono::steady_clock::now() + limits_.rest;
}

void Acceptor::OnDeadlines(Time now) {
  if (tidy_at_ && *tidy_at_ <= now) {
    tidy_at_.reset();
    tidy_();
  }
  if (rest_at_ && *rest_at_ <= now) {
    rest_at_.reset();
    if (!rest_()) rest_at_ = now + limits_.rest;
  }
  if (accept_at_ && *accept_at_ <= now) {
    accept_at_.reset();
    // Only a lack of memory can refuse.
    if (!Control(epoll_.get(), EPOLL_CTL_ADD, listener_, EPOLLIN, kListenerKey)) {
      accept_at_ = now + kAcceptPause;
    }
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Id id = deadlines_.begin()->second;
    Entry& entry = entries_.at(id);
    const Connection& connection = entry.connection;
    if (!connection.turned_away() && !connection.Greeted() && IsReadable(connection)) {
      // What it sent while this thread was held up counts; more than one piece is no greeting.
      OnEvents(id, Connection::Side::kClient, EPOLLIN);
      const auto found = entries_.find(id);
      if (found == entries_.end() || found->second.connection.Greeted()) continue;
    }
    if (connection.turned_away() || connection.Greeted()) {
      Uncount(entry);
      deadlines_.erase(deadlines_.begin());
      entries_.erase(id);
      continue;
    }
    const std::string text = StrCat("no HTTP/2 preface and SETTINGS within ",
                                    limits_.handshake.count(), " s of connecting");
    refused_(connection.peer(), text);
    TurnAway(id, entry, http2::ErrorCode::kProtocolError, text);
  }
}

int Acceptor::TimeoutMs() const {
  std::optional<Time> next = tidy_at_;
  for (const auto& at : {accept_at_, rest_at_}) {
    if (at && (!next || *at < *next)) next = at;
  }
  if (!deadlines_.empty() && (!next || deadlines_.begin()->first < *next)) {
    next = deadlines_.begin()->first;
  }
  if (!next) return -1;
  const auto left = *next - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::max<int64_t>(ms, 0));
}

size_t Acceptor::ConnectionCount() const {
  const std::lock_guard lock(mutex_);
  return open_count_;
}

}  // namespace holdfast::agent::api
