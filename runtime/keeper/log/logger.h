// SPDX-License-Identifier: Apache-2.0
// Logger: moves the output of all containers from pipes to log files (container_log.h has the
// protocol). A process of its own because writing to a file may block. One batch per readable pipe
// and turn, so a flooding container delays the others by one batch each, not more.
// Single-threaded, one Loop. It holds logger.lock; a successor waits for that.
//
// It ends when the holder is gone and no pipe is open any more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/log/attachments.h"
#include "runtime/keeper/log/container_log.h"
#include "runtime/keeper/process/fd_store.h"
#include "runtime/keeper/process/holder_link.h"
#include "runtime/keeper/process/options.h"
#include "runtime/keeper/process/serving.h"

namespace holdfast::runtime::keeper {

class Logger {
 public:
  static Result<std::unique_ptr<Logger>> Create(const Options& options);
  Result<void> Run();

 private:
  struct Source {   // of one stream
    int pipe = -1;  // borrowed from pipes_
    bool watched = false;
    Attachments attached;
    int waits_for = -1;  // of attached: it has no room, so nothing is read
  };
  struct Entry {
    std::unique_ptr<ContainerLog> log;
    Source sources[2];
    bool busy = false;  // something happened since the last tick
  };

  explicit Logger(const Options& options);
  Result<void> SetUp();
  Result<UniqueFd> TakeOver(Handover& handover);
  Result<UniqueFd> Begin();
  Result<void> LoadRecords();
  void EndLostStreams();
  Result<void> StartServing(UniqueFd listener);
  Result<void> HandOver(Handover& handover) const;

  void Handle(PacketServer::ConnectionId id, Message message);
  void HandleUnregister(PacketServer::ConnectionId id, const std::string& log_id);
  void HandleStatus(PacketServer::ConnectionId id, const std::string& log_id);
  Result<void> Register(Message& message);
  Result<void> Attach(Message& message);
  Entry* Find(const std::string& log_id);

  // A key "log.<id>.<which>" got its descriptor, or is about to lose it.
  void Stored(const std::string& key, FdStore::Fds& fds);
  void Dropping(const std::string& key);
  void DropOutput(LogPart part, int fd);
  void Attach(Entry& entry, LogStream stream, int pipe);
  void Detach(Entry& entry, LogStream stream);
  void Watch(Entry& entry, LogStream stream, bool on);
  void Pump(const std::string& log_id, LogStream stream);
  // A terminal is no pipe: its output goes through a pipe of ours ("log.<id>.relay", kept by the
  // holder too) and then the same way.
  void AttachTty(Entry& entry, int master);
  void PumpTty(const std::string& log_id, int master);
  void StreamEnded(Entry& entry, LogStream stream);

  // One batch into the log, and to everybody who is attached (logger_attach.cc). kOk too when
  // somebody has no room: it goes on when he has.
  ContainerLog::Progress Take(Entry& entry, LogStream stream, int pipe);
  // EPOLLERR comes unasked: he has gone.
  Result<void> WatchReader(const std::string& log_id, LogStream stream, int reader);
  void ReaderHasGone(const std::string& log_id, LogStream stream, int reader);
  void WaitForReader(Entry& entry, LogStream stream, int reader);
  void ReaderHasRoom(const std::string& log_id, LogStream stream);
  // Their readers see the end.
  void LetGo(Entry& entry, LogStream stream);

  // What no event may tell.
  bool HasToLookAgain() const;
  void OnTick();
  void OnSignal(int signal);
  void CompressNext();
  bool MayEnd() const { return !link_.HasHolder() && pipes_.entries().empty(); }

  const Options options_;
  SystemClock clock_;
  UniqueFd run_dir_;
  UniqueFd logs_dir_;
  UniqueFd lock_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> unreadable_;  // records of logs that cannot be written
  FdStore pipes_;
  Serving serving_;
  HolderLink link_;
  bool restless_ = true;  // something happened since the last tick, or is to be tried again
  std::set<std::string> to_compress_;
  pid_t compressing_ = 0;
  std::string compressed_log_;  // whose file that process is at; "" after an upgrade
};

}  // namespace holdfast::runtime::keeper
