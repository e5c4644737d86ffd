// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/logger.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/log/log_compress.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kTick{1000};
constexpr size_t kTtyBytes = 64 * 1024;

bool HasBytes(int pipe) {
  int waiting = 0;
  return ::ioctl(pipe, FIONREAD, &waiting) == 0 && waiting > 0;
}

}  // namespace

Logger::Logger(const Options& options)
    : options_(options),
      pipes_({.stored = [this](const std::string& key, FdStore::Fds& fds) { Stored(key, fds); },
              .dropping = [this](const std::string& key) { Dropping(key); }}),
      serving_(options_, pipes_) {}

Result<std::unique_ptr<Logger>> Logger::Create(const Options& options) {
  std::unique_ptr<Logger> logger(new Logger(options));
  RETURN_IF_ERROR(logger->SetUp());
  return logger;
}

Result<void> Logger::SetUp() {
  ::prctl(PR_SET_NAME, "hf-log");
  (void)::signal(SIGPIPE, SIG_IGN);  // who was attached may go at any moment
  (void)sys::ResetScheduling();      // unlike its holder it moves bulk; on failure no harm is done
  RETURN_IF_ERROR(serving_.Prepare({SIGCHLD, SIGTERM}));
  ASSIGN_OR_RETURN(run_dir_, sys::OpenAt(AT_FDCWD, options_.run_dir, O_RDONLY | O_DIRECTORY));
  RETURN_IF_ERROR(sys::MakeDirs(run_dir_.get(), kLogsDir, 0700));
  ASSIGN_OR_RETURN(logs_dir_, sys::OpenAt(run_dir_.get(), kLogsDir, O_RDONLY | O_DIRECTORY));
  ASSIGN_OR_RETURN(std::optional<Handover> handover, serving_.Resume());
  ASSIGN_OR_RETURN(UniqueFd listener, handover ? TakeOver(*handover) : Begin());
  return StartServing(std::move(listener));
}

Result<void> Logger::StartServing(UniqueFd listener) {
  RETURN_IF_ERROR(serving_.Start(
      std::move(listener),
      {.tick = [this] { return HasToLookAgain() ? kTick : std::chrono::milliseconds(0); },
       .on_tick = [this] { OnTick(); },
       .on_signal = [this](int signal) { OnSignal(signal); },
       .handle = [this](PacketServer::ConnectionId id, Message m) { Handle(id, std::move(m)); },
       .hand_over = [this](Handover& handover) { return HandOver(handover); }}));
  link_ = HolderLink(StrCat(options_.run_dir, "/", kHolderSocket), {});
  return link_.Follow(serving_.loop(), "log");
}

Result<UniqueFd> Logger::Begin() {
  ASSIGN_OR_RETURN(lock_, sys::OpenAt(run_dir_.get(), kLoggerLock, O_RDWR | O_CREAT, 0600));
  while (::flock(lock_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return Error::FromErrno(errno, "flock logger.lock");
  }
  HOLDFAST_PAUSE_POINT("logger.locked");
  RETURN_IF_ERROR(LoadRecords());
  HOLDFAST_PAUSE_POINT("logger.recovered");
  // Before the keys are copied: a terminal that a launcher puts from now on waits here, one from before the holder has.
  ASSIGN_OR_RETURN(UniqueFd listener,
                   sys::ListenSeqpacket(StrCat(options_.run_dir, "/", kLoggerSocket), 0600));
  RETURN_IF_ERROR(WithContext(
      CopyKeys(StrCat(options_.run_dir, "/", kHolderSocket), &IsLogKey, pipes_), "copy pipes"));
  HOLDFAST_PAUSE_POINT("logger.copied");
  EndLostStreams();
  return listener;
}

Result<UniqueFd> Logger::TakeOver(Handover& handover) {
  ASSIGN_OR_RETURN(UniqueFd listener, serving_.TakeListener(handover));
  lock_ = handover.TakeFd("lock");
  if (!lock_) return Internal("hand-over of the logger is incomplete");
  compressing_ = static_cast<pid_t>(handover.Number("compressing"));
  RETURN_IF_ERROR(LoadRecords());
  RETURN_IF_ERROR(serving_.TakeStore(handover));
  return listener;
}

Result<void> Logger::HandOver(Handover& handover) const {
  handover.values["compressing"] = StrCat(compressing_);
  return handover.Give("lock", lock_.get());
}

// One unreadable record stops only its own container's log.
Result<void> Logger::LoadRecords() {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, sys::ListDirAt(logs_dir_.get(), "."));
  for (const std::string& id : ids) {
    if (!IsValidId(id)) continue;
    auto spec = ContainerLog::ReadSpec(logs_dir_.get(), id);
    if (!spec && spec.error().sys_errno() == ENOENT) {
      (void)ContainerLog::Remove(logs_dir_.get(), id);  // half registered or half removed
      continue;
    }
    auto log = spec ? ContainerLog::Open(logs_dir_.get(), *spec, clock_)
                    : Result<std::unique_ptr<ContainerLog>>(spec.error());
    if (!log) {
      (void)sys::WriteAll(STDERR_FILENO,
                          Printable(StrCat("holdfast-keeper: log of container ", id, ": ",
                                           log.error().message(), ": its output is dropped")) +
                              "\n");
      unreadable_.insert(id);
      continue;
    }
    entries_[id].log = std::move(*log);
    to_compress_.insert(id);
  }
  return {};
}

// Nobody has these pipes any more, so nothing more can come out of them.
void Logger::EndLostStreams() {
  for (auto& [id, entry] : entries_) {
    for (LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
      const bool tty_yet_to_come = entry.log->registration().tty;
      if (entry.sources[static_cast<size_t>(stream)].pipe >= 0 || tty_yet_to_come) continue;
      (void)entry.log->End(stream);  // a blocked one is retried at every tick
    }
  }
}

Result<void> Logger::Run() {
  while (!MayEnd()) {
    RETURN_IF_ERROR(serving_.Turn());
    serving_.UpgradeIfAsked();
  }
  return {};
}

void Logger::Stored(const std::string& key, FdStore::Fds& fds) {
  const auto parsed = ParseLogKey(key);
  if (!parsed) return;
  const int fd = fds.front().get();
  if (unreadable_.contains(parsed->id)) DropOutput(parsed->part, fd);
  Entry* entry = Find(parsed->id);
  if (entry == nullptr) return;
  switch (parsed->part) {
    case LogPart::kStdout:
      return Attach(*entry, LogStream::kStdout, fd);
    case LogPart::kStderr:
      return Attach(*entry, LogStream::kStderr, fd);
    case LogPart::kTerminal:
      return AttachTty(*entry, fd);
    case LogPart::kRelay:
      return;  // found when the terminal is pumped
  }
}

// Of a log whose record cannot be read: nobody knows where its lines belong, and a container whose
// pipe is full would stand still.
void Logger::DropOutput(LogPart part, int fd) {
  if (part == LogPart::kRelay) return;
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  // Not added: it waits as it did before, and the successor tries again.
  (void)serving_.loop().Add(fd, EPOLLIN, [this, fd](uint32_t) {
    std::array<char, 4096> dropped{};
    ssize_t n = 0;
    while ((n = ::read(fd, dropped.data(), dropped.size())) > 0) {
    }
    // Nobody writes any more.
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) serving_.loop().Remove(fd);
  });
}

void Logger::Dropping(const std::string& key) {
  const FdStore::Fds* fds = pipes_.Find(key);
  serving_.loop().Remove(fds->front().get());  // where its output is dropped; elsewhere below
  for (auto& [id, entry] : entries_) {
    for (LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
      if (entry.sources[static_cast<size_t>(stream)].pipe == fds->front().get()) {
        Detach(entry, stream);
      }
    }
  }
}

void Logger::Attach(Entry& entry, LogStream stream, int pipe) {
  Source& source = entry.sources[static_cast<size_t>(stream)];
  source.pipe = pipe;
  Watch(entry, stream, !entry.log->blocked());
}

void Logger::AttachTty(Entry& entry, int master) {
  const std::string& id = entry.log->registration().id;
  const std::string relay = MakeLogKey(id, LogPart::kRelay);
  if (pipes_.Find(relay) == nullptr) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;  // the successor tries again
    FdStore::Fds fds;
    fds.emplace_back(ends[0]);
    fds.emplace_back(ends[1]);
    if (!pipes_.Put(relay, std::move(fds))) return;  // the id was checked when it was registered
    link_.Put(relay, Borrow(*pipes_.Find(relay)));
  }
  // A launch that was cut short leaves a terminal that ends at once; this is the next try's.
  if (entry.log->ended(LogStream::kStdout)) entry.log->Restart();
  HOLDFAST_PAUSE_POINT("logger.tty-attached");
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  Attach(entry, LogStream::kStdout, master);
  PumpTty(id, master);  // what a dead logger left in the relay
}

void Logger::PumpTty(const std::string& log_id, int master) {
  Entry* entry = Find(log_id);
  const FdStore::Fds* relay = pipes_.Find(MakeLogKey(log_id, LogPart::kRelay));
  if (entry == nullptr || relay == nullptr || relay->size() != 2) return;
  const ssize_t n =
      ::splice(master, nullptr, (*relay)[1].get(), nullptr, kTtyBytes, SPLICE_F_NONBLOCK);
  // EIO: nobody has the terminal open any more.
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  entry->busy = restless_ = true;
  const int source = (*relay)[0].get();
  if (ended) {
    Source& of = entry->sources[static_cast<size_t>(LogStream::kStdout)];
    while (!of.attached.empty() && HasBytes(source) &&
           Take(*entry, LogStream::kStdout, source) == ContainerLog::Progress::kOk) {
      if (of.waits_for >= 0) return;
    }
    entry->log->PumpAll(LogStream::kStdout, source);
    if (entry->log->ended(LogStream::kStdout)) return StreamEnded(*entry, LogStream::kStdout);
  }
  if (entry->log->blocked() ||
      Take(*entry, LogStream::kStdout, source) == ContainerLog::Progress::kBlocked) {
    Watch(*entry, LogStream::kStdout, false);
  }
}

void Logger::Detach(Entry& entry, LogStream stream) {
  Watch(entry, stream, false);
  entry.sources[static_cast<size_t>(stream)].pipe = -1;
}

void Logger::Watch(Entry& entry, LogStream stream, bool on) {
  Source& source = entry.sources[static_cast<size_t>(stream)];
  if (source.pipe < 0 || source.watched == on) return;
  if (on && source.waits_for >= 0) return;
  if (!on) {
    serving_.loop().Remove(source.pipe);
    source.watched = false;
    return;
  }
  const std::string id = entry.log->registration().id;
  const auto added =
      serving_.loop().Add(source.pipe, EPOLLIN, [this, id, stream](uint32_t) { Pump(id, stream); });
  source.watched = added.has_value();
}

void Logger::Pump(const std::string& log_id, LogStream stream) {
  Entry* entry = Find(log_id);
  if (entry == nullptr) return;
  const int pipe = entry->sources[static_cast<size_t>(stream)].pipe;
  if (entry->log->registration().tty) return PumpTty(log_id, pipe);
  entry->busy = restless_ = true;
  switch (Take(*entry, stream, pipe)) {
    case ContainerLog::Progress::kOk:
      break;
    case ContainerLog::Progress::kBlocked:
      Watch(*entry, LogStream::kStdout, false);
      Watch(*entry, LogStream::kStderr, false);
      break;
    case ContainerLog::Progress::kEnded:
      StreamEnded(*entry, stream);
      break;
  }
  if (entry->log->TakeRotated()) {
    to_compress_.insert(log_id);
    CompressNext();
  }
}

void Logger::StreamEnded(Entry& entry, LogStream stream) {
  const std::string id = entry.log->registration().id;
  const LogPart part = entry.log->registration().tty  ? LogPart::kTerminal
                       : stream == LogStream::kStdout ? LogPart::kStdout
                                                      : LogPart::kStderr;
  const std::string key = MakeLogKey(id, part);
  LetGo(entry, stream);
  pipes_.Drop(key);
  HOLDFAST_PAUSE_POINT("logger.stream-dropped");
  link_.Drop(key);
  if (!entry.log->registration().tty) return;
  pipes_.Drop(MakeLogKey(id, LogPart::kRelay));
  link_.Drop(MakeLogKey(id, LogPart::kRelay));
}

bool Logger::HasToLookAgain() const {
  return restless_ || (compressing_ == 0 && !to_compress_.empty());
}

// Once more after each round in which something happened: what rests then is closed.
void Logger::OnTick() {
  restless_ = false;
  for (auto& [id, entry] : entries_) {
    if (entry.log->blocked() && entry.log->Retry()) {
      for (LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
        if (entry.log->ended(stream)) {
          StreamEnded(entry, stream);
        } else {
          Watch(entry, stream, true);
        }
      }
    }
    restless_ = restless_ || entry.busy || entry.log->blocked();
    if (!entry.busy) entry.log->Idle();
    entry.busy = false;
  }
  CompressNext();
}

void Logger::OnSignal(int signal) {
  if (signal != SIGCHLD) return;  // SIGTERM: the holder's end decides, see MayEnd
  pid_t pid = 0;
  int status = 0;
  while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != compressing_) continue;
    compressing_ = 0;
    // Not at once again: its next rotation asks for it.
    if (status != 0) to_compress_.erase(compressed_log_);
  }
  CompressNext();
}

void Logger::CompressNext() {
  while (compressing_ == 0 && !to_compress_.empty()) {
    const std::string id = *to_compress_.begin();
    Entry* entry = Find(id);
    const auto stem = entry == nullptr ? std::nullopt : entry->log->file().NextToCompress();
    const auto dir = stem ? entry->log->file().OpenDirectory() : NotFound("nothing to compress");
    if (!dir) {
      to_compress_.erase(id);
      continue;
    }
    auto pid = StartCompression(dir->get(), *stem);
    if (!pid) return;  // the next tick tries again
    compressing_ = *pid;
    compressed_log_ = id;
  }
}

Logger::Entry* Logger::Find(const std::string& log_id) {
  const auto it = entries_.find(log_id);
  return it == entries_.end() ? nullptr : &it->second;
}

}  // namespace holdfast::runtime::keeper
