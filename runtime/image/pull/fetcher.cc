// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/fetcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "holdfast/sys/spawn.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kPiece = 256 << 10;
constexpr std::chrono::seconds kSilence{180};
constexpr int kPipeBytes = 1 << 20;

Result<std::pair<UniqueFd, UniqueFd>> NewPipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return Error::FromErrno(errno, "pipe");
  std::pair<UniqueFd, UniqueFd> ends{UniqueFd(fds[0]), UniqueFd(fds[1])};
  // Fewer wake-ups; an unprivileged agent over its pipe quota goes on with the default size.
  (void)::fcntl(fds[0], F_SETPIPE_SZ, kPipeBytes);
  return ends;
}

}  // namespace

struct Fetcher::Running {
  UniqueFd pipe;  // closed at its end
  Sink sink;
  std::optional<fetch::Head> head;
  std::optional<fetch::End> end;
  std::optional<Error> refused;
  bool is_upload = false;

  // An answer without a head ended before there was one.
  bool IsOver() const { return refused || (end && !pipe); }
};

Fetcher::Fetcher(pid_t pid, UniqueFd socket)
    : pid_(pid), socket_(std::move(socket)), buffer_(kPiece, '\0') {}

Fetcher::Fetcher(Fetcher&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      socket_(std::move(other.socket_)),
      last_id_(other.last_id_),
      running_(std::move(other.running_)),
      buffer_(std::move(other.buffer_)),
      heard_(other.heard_) {}

Fetcher::~Fetcher() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<Fetcher> Fetcher::Start(const std::string& program, std::vector<std::string> environment) {
  ASSIGN_OR_RETURN(auto pair, sys::SeqpacketPair());
  const UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere) return Error::FromErrno(errno, "open /dev/null");
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  ASSIGN_OR_RETURN(
      const pid_t pid,
      sys::Spawn({program}, {pair.second.get(), nowhere.get(), nowhere.get()}, variables.data()));
  return Fetcher(pid, std::move(pair.first));
}

Result<uint64_t> Fetcher::Begin(fetch::Request request, Sink sink, int upload) {
  request.id = ++last_id_;
  ASSIGN_OR_RETURN(const UniqueFd text,
                   sys::SealedMemfd("fetch-request", fetch::EncodeRequest(request)));
  ASSIGN_OR_RETURN(auto pipe, NewPipe());
  std::vector<int> fds = {text.get(), pipe.second.get()};
  if (upload >= 0) fds.push_back(upload);
  RETURN_IF_ERROR(
      WithContext(sys::SendPacket(socket_.get(), fetch::Encode({std::string(fetch::kGet)}), fds),
                  "holdfast-fetch"));
  heard_ = std::chrono::steady_clock::now();
  auto running = std::make_unique<Running>();
  running->pipe = std::move(pipe.first);
  running->sink = std::move(sink);
  running->is_upload = upload >= 0;
  running_.emplace(request.id, std::move(running));
  return request.id;
}

void Fetcher::Stop(uint64_t id) {
  if (running_.erase(id) == 0) return;
  // When it has gone the next call says so.
  (void)sys::SendPacket(socket_.get(),
                        fetch::Encode({std::string(fetch::kStop), std::to_string(id)}));
}

Result<std::optional<FetchEnd>> Fetcher::Next(std::chrono::milliseconds patience) {
  if (auto ended = TakeEnded()) return ended;
  RETURN_IF_ERROR(Wait(patience));
  return TakeEnded();
}

Result<void> Fetcher::Wait(std::chrono::milliseconds patience) {
  std::vector<pollfd> fds = {{socket_.get(), POLLIN, 0}};
  std::vector<Running*> reading;
  for (const auto& [id, running] : running_) {
    // Its bytes mean nothing before it is known what they answer.
    if (!running->pipe || !running->head) continue;
    fds.push_back({running->pipe.get(), POLLIN, 0});
    reading.push_back(running.get());
  }
  const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(patience.count()));
  if (ready < 0 && errno != EINTR) return Error::FromErrno(errno, "poll holdfast-fetch");
  const auto now = std::chrono::steady_clock::now();
  if (ready <= 0) {
    if (!IsOverdue(now)) return {};
    return Unavailable("holdfast-fetch says nothing any more");
  }
  heard_ = now;
  for (size_t i = 0; i < reading.size(); ++i) {
    if (fds[i + 1].revents != 0) Read(*reading[i]);
  }
  return fds[0].revents != 0 ? Listen() : Result<void>();
}

bool Fetcher::IsOverdue(std::chrono::steady_clock::time_point now) const {
  return now - heard_ >= kSilence &&
         std::ranges::any_of(running_, [](const auto& one) { return !one.second->is_upload; });
}

void Fetcher::Read(Running& running) {
  const ssize_t n = ::read(running.pipe.get(), buffer_.data(), buffer_.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) return running.pipe.Reset();
  const std::string_view piece(buffer_.data(), static_cast<size_t>(n));
  if (auto taken = running.sink(*running.head, piece); !taken) {
    running.refused = std::move(taken.error());
    running.pipe.Reset();
  }
}

Result<void> Fetcher::Listen() {
  auto packet = sys::ReceivePacket(socket_.get());
  if (!packet || packet->data.empty()) {
    return Unavailable("holdfast-fetch ended (was it killed, or did it leave its sandbox?)");
  }
  ASSIGN_OR_RETURN(const fetch::Fields fields, fetch::Decode(packet->data));
  return Note(fields);
}

Result<void> Fetcher::Note(const fetch::Fields& fields) {
  if (fields[0] == fetch::kHead) {
    ASSIGN_OR_RETURN(fetch::Head head, fetch::DecodeHead(fields));
    const auto found = running_.find(head.id);
    if (found != running_.end()) found->second->head = std::move(head);
    return {};
  }
  if (fields[0] != fetch::kEnd) return InvalidArgument("holdfast-fetch: unusable message");
  ASSIGN_OR_RETURN(fetch::End end, fetch::DecodeEnd(fields));
  if (end.id == 0) return Internal(StrCat("holdfast-fetch: ", end.error));
  const auto found = running_.find(end.id);
  if (found == running_.end()) return {};
  // Without a head nothing that is in the pipe counts.
  if (!found->second->head) found->second->pipe.Reset();
  found->second->end = std::move(end);
  return {};
}

std::optional<FetchEnd> Fetcher::TakeEnded() {
  for (auto& [id, running] : running_) {
    if (!running->IsOver()) continue;
    FetchEnd ended{id, running->head.value_or(fetch::Head()), running->end.value_or(fetch::End()),
                   std::move(running->refused)};
    Stop(id);
    return ended;
  }
  return std::nullopt;
}

}  // namespace holdfast::runtime
