// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/logger.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/log_compress.h"
#include "runtime/keeper/paths.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::milliseconds kTick{1000};
constexpr size_t kTtyBytes = 64 * 1024;

}  // namespace

Logger::Logger(const Options& options)
    : options_(options),
      pipes_({.stored = [this](const std::string& key, FdStore::Fds& fds) { Stored(key, fds); },
              .dropping = [this](const std::string& key) { Dropping(key); }}) {}

Result<std::unique_ptr<Logger>> Logger::Create(const Options& options) {
  std::unique_ptr<Logger> logger(new Logger(options));
  RETURN_IF_ERROR(logger->SetUp());
  return logger;
}

Result<void> Logger::SetUp() {
  ::prctl(PR_SET_NAME, "hf-log");
  (void)sys::ResetScheduling();  // unlike its holder it moves bulk; on failure no harm is done
  ASSIGN_OR_RETURN(loop_, Loop::Create());
  ASSIGN_OR_RETURN(signals_, SignalFd({SIGCHLD, SIGTERM}));
  ASSIGN_OR_RETURN(run_dir_, sys::OpenAt(AT_FDCWD, options_.run_dir, O_RDONLY | O_DIRECTORY));
  RETURN_IF_ERROR(sys::MakeDirs(run_dir_.get(), kLogsDir, 0700));
  ASSIGN_OR_RETURN(logs_dir_, sys::OpenAt(run_dir_.get(), kLogsDir, O_RDONLY | O_DIRECTORY));
  UniqueFd listener;
  if (options_.resume >= 0) {
    ASSIGN_OR_RETURN(Handover handover, TakeHandover(options_.resume));
    ASSIGN_OR_RETURN(listener, TakeOver(std::move(handover)));
  } else {
    ASSIGN_OR_RETURN(listener, Begin());
  }
  server_ = std::make_unique<PacketServer>(
      loop_, std::move(listener),
      [this](PacketServer::ConnectionId id, Message m) { Handle(id, std::move(m)); });
  RETURN_IF_ERROR(server_->Start());
  ASSIGN_OR_RETURN(timer_, TimerFd(kTick));
  RETURN_IF_ERROR(loop_.Add(timer_.get(), EPOLLIN, [this](uint32_t) { OnTick(); }));
  RETURN_IF_ERROR(loop_.Add(signals_.get(), EPOLLIN, [this](uint32_t) { OnSignal(); }));
  link_ = HolderLink(StrCat(options_.run_dir, "/", kHolderSocket), {});
  link_.Ready("log");
  holder_ = link_.OpenHolder();
  if (!holder_) return {};
  return loop_.Add(holder_.get(), EPOLLIN, [this](uint32_t) {
    loop_.Remove(holder_.get());
    holder_.Reset();
    link_.Close();
  });
}

Result<UniqueFd> Logger::Begin() {
  ASSIGN_OR_RETURN(lock_, sys::OpenAt(run_dir_.get(), kLoggerLock, O_RDWR | O_CREAT, 0600));
  while (::flock(lock_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return Error::FromErrno(errno, "flock logger.lock");
  }
  HOLDFAST_PAUSE_POINT("logger.locked");
  RETURN_IF_ERROR(LoadRecords());
  HOLDFAST_PAUSE_POINT("logger.recovered");
  RETURN_IF_ERROR(WithContext(
      CopyKeys(StrCat(options_.run_dir, "/", kHolderSocket), &IsLogKey, pipes_), "copy pipes"));
  EndLostStreams();
  return sys::ListenSeqpacket(StrCat(options_.run_dir, "/", kLoggerSocket), 0600);
}

Result<UniqueFd> Logger::TakeOver(Handover handover) {
  UniqueFd listener = handover.TakeFd("listener");
  lock_ = handover.TakeFd("lock");
  if (!listener || !lock_) return Internal("hand-over of the logger is incomplete");
  upgrades_ = static_cast<uint32_t>(std::strtoul(handover.Value("upgrades").c_str(), nullptr, 10));
  compressing_ = std::atoi(handover.Value("compressing").c_str());
  RETURN_IF_ERROR(LoadRecords());
  for (auto& [key, fds] : handover.fds) {
    if (key.starts_with("key:")) RETURN_IF_ERROR(pipes_.Put(key.substr(4), std::move(fds)));
  }
  return listener;
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
    RETURN_IF_ERROR(loop_.RunOnce(std::chrono::milliseconds(-1)));
    if (next_binary_) Upgrade();
  }
  return {};
}

Result<Handover> Logger::MakeHandover() const {
  Handover handover;
  handover.values = {{"upgrades", StrCat(upgrades_ + 1)}, {"compressing", StrCat(compressing_)}};
  RETURN_IF_ERROR(handover.Give("listener", server_->listener()));
  RETURN_IF_ERROR(handover.Give("lock", lock_.get()));
  for (const auto& [key, fds] : pipes_.entries()) {
    RETURN_IF_ERROR(handover.Give(StrCat("key:", key), fds));
  }
  return handover;
}

void Logger::Upgrade() {
  const auto handover = MakeHandover();
  // On failure all is as before.
  if (handover) (void)ReExecute(next_binary_.get(), options_.ToArguments(), *handover);
  next_binary_.Reset();
}

void Logger::Stored(const std::string& key, FdStore::Fds& fds) {
  const size_t dot = key.rfind('.');
  const std::string which = key.substr(dot + 1);
  if (dot < sizeof kLogKeyPrefix) return;
  const std::string id = key.substr(sizeof kLogKeyPrefix - 1, dot - sizeof kLogKeyPrefix + 1);
  Entry* entry = Find(id);
  const int fd = fds.front().get();
  if (unreadable_.contains(id)) DropOutput(which, fd);
  if (entry == nullptr) return;
  if (which == "1") Attach(*entry, LogStream::kStdout, fd);
  if (which == "2") Attach(*entry, LogStream::kStderr, fd);
  if (which == "tty") AttachTty(*entry, fd);
}

// Of a log whose record cannot be read: nobody knows where its lines belong, and a container whose
// pipe is full would stand still.
void Logger::DropOutput(const std::string& which, int fd) {
  if (which != "1" && which != "2" && which != "tty") return;
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  // Not added: it waits as it did before, and the successor tries again.
  (void)loop_.Add(fd, EPOLLIN, [this, fd](uint32_t) {
    std::array<char, 4096> dropped{};
    ssize_t n = 0;
    while ((n = ::read(fd, dropped.data(), dropped.size())) > 0) {
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) loop_.Remove(fd);  // nobody writes any more
  });
}

void Logger::Dropping(const std::string& key) {
  const FdStore::Fds* fds = pipes_.Find(key);
  loop_.Remove(fds->front().get());  // where its output is dropped; elsewhere below
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
  const std::string relay = StrCat(kLogKeyPrefix, id, ".relay");
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
  const FdStore::Fds* relay = pipes_.Find(StrCat(kLogKeyPrefix, log_id, ".relay"));
  if (entry == nullptr || relay == nullptr || relay->size() != 2) return;
  const ssize_t n =
      ::splice(master, nullptr, (*relay)[1].get(), nullptr, kTtyBytes, SPLICE_F_NONBLOCK);
  // EIO: nobody has the terminal open any more.
  const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  entry->busy = true;
  const int source = (*relay)[0].get();
  if (ended) {
    entry->log->PumpAll(LogStream::kStdout, source);
    if (entry->log->ended(LogStream::kStdout)) return StreamEnded(*entry, LogStream::kStdout);
  }
  if (entry->log->blocked() ||
      entry->log->Pump(LogStream::kStdout, source) == ContainerLog::Progress::kBlocked) {
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
  if (!on) {
    loop_.Remove(source.pipe);
    source.watched = false;
    return;
  }
  const std::string id = entry.log->registration().id;
  const auto added =
      loop_.Add(source.pipe, EPOLLIN, [this, id, stream](uint32_t) { Pump(id, stream); });
  source.watched = added.has_value();
}

void Logger::Pump(const std::string& log_id, LogStream stream) {
  Entry* entry = Find(log_id);
  if (entry == nullptr) return;
  const int pipe = entry->sources[static_cast<size_t>(stream)].pipe;
  if (entry->log->registration().tty) return PumpTty(log_id, pipe);
  entry->busy = true;
  switch (entry->log->Pump(stream, pipe)) {
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
  const char* which = entry.log->registration().tty  ? ".tty"
                      : stream == LogStream::kStdout ? ".1"
                                                     : ".2";
  const std::string key = StrCat(kLogKeyPrefix, id, which);
  pipes_.Drop(key);
  HOLDFAST_PAUSE_POINT("logger.stream-dropped");
  link_.Drop(key);
  if (!entry.log->registration().tty) return;
  pipes_.Drop(StrCat(kLogKeyPrefix, id, ".relay"));
  link_.Drop(StrCat(kLogKeyPrefix, id, ".relay"));
}

void Logger::OnTick() {
  DrainTimer(timer_.get());
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
    if (!entry.busy) entry.log->Idle();
    entry.busy = false;
  }
  CompressNext();
}

void Logger::OnSignal() {
  while (const int signal = ReadSignal(signals_.get())) {
    if (signal != SIGCHLD) continue;  // SIGTERM: the holder's end decides, see MayEnd
    pid_t pid = 0;
    int status = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != compressing_) continue;
      compressing_ = 0;
      // Not at once again: its next rotation asks for it.
      if (status != 0) to_compress_.erase(compressed_log_);
    }
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
