// SPDX-License-Identifier: Apache-2.0
// Holder: finding what earlier processes left, and starting launcher and logger.
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/socket.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/process_info.h"
#include "runtime/keeper/hold/holder.h"
#include "runtime/keeper/hold/pipe_recovery.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::seconds kCollectLimit{2};

}  // namespace

Result<void> Holder::Collect() {
  RemoveStaleTemporaries();
  // Before a launcher is retired: what ends before this its OrphanExits know, what ends later the
  // pidfds opened here do.
  OpenProcesses();
  HOLDFAST_PAUSE_POINT("holder.processes-opened");
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(records_.run_dir(), "."));
  for (const std::string& name : names) {
    const unsigned generation = std::max(GenerationOfSocketName(name), GenerationOfRetired(name));
    if (generation == 0) continue;
    generation_ = std::max(generation_, generation);
    CollectLauncher(name, generation);
  }
  CollectLogger();
  OpenProcesses();  // what launchers have started meanwhile
  // A logger that lives has given all that it reads.
  if (!logger_.adopted) RecoverLogPipes(records_, store_, EndedToo::kYes);
  return {};
}

// What the old launcher keeps as second owner comes here, then it is told to start nothing more. It keeps that until the next
// generation is the second owner: this process may die before.
void Holder::CollectLauncher(const std::string& socket_name, unsigned generation) {
  const std::string path = SocketPath(socket_name);
  auto retired = Call(path, MessageType::kPing, {}, {}, kCollectLimit);
  if (!retired && retired.error().code() != Code::kDeadlineExceeded) {
    (void)sys::RemoveFileAt(records_.run_dir(), socket_name);  // nobody answers there
    return;
  }
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (CopyKeys(path, &IsMirrored, store_)) break;
  }
  HOLDFAST_PAUSE_POINT("holder.launcher-collected");
  retired = Call(path, MessageType::kRetire, Encoder().U8(1).Take(), {}, kCollectLimit);
  if (!retired) return;
  // Not found by clients any more, only by the next holder. Ignored: under its old name it is no longer the newest soon, and
  // lets go with the next holder.
  const std::string name = RetiredSocketName(generation);
  (void)::renameat(records_.run_dir(), socket_name.c_str(), records_.run_dir(), name.c_str());
}

// Without waiting for them: one that hangs hears it later. Ignored: one that has died has nothing any more, and a name that
// stays is the next holder's.
void Holder::LetRetiredGo() const {
  const auto names = sys::ListDirAt(records_.run_dir(), ".");
  if (!names) return;
  for (const std::string& name : *names) {
    if (GenerationOfRetired(name) == 0) continue;
    if (auto socket = sys::ConnectSeqpacket(SocketPath(name)); socket) {
      (void)SendMessage(socket->get(), MessageType::kLetGo, {}, {});
    }
    (void)sys::RemoveFileAt(records_.run_dir(), name);
  }
}

// A logger that an earlier holder started goes on; it is watched by its pidfd.
void Holder::CollectLogger() {
  const std::string path = SocketPath(kLoggerSocket);
  auto socket = sys::ConnectSeqpacket(path);
  if (!socket) return;
  const auto peer = sys::GetPeerCredentials(socket->get());
  if (!peer) return;
  PidFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, peer->pid, 0)));
  if (!pidfd || !CopyKeys(path, &IsLogKey, store_)) return;
  logger_.adopted = std::move(pidfd);
  logger_.ready = true;
}

void Holder::OpenProcesses() {
  auto starts = records_.ListStarts();
  if (!starts) return;
  for (const StartRecord& start : *starts) {
    const std::string key = MakeProcessKey(start.id);
    const auto exit = records_.ExitOf(start);
    const bool ended = exit && *exit;
    if (!ended && store_.Find(key) == nullptr) {
      if (auto pidfd = OpenExactProcess(start.pid, start.start_ticks); pidfd) {
        FdStore::Fds fds;
        fds.emplace_back(pidfd->Release());
        (void)store_.Put(key, std::move(fds));  // the key is valid: the record's id is
      } else if (pidfd.error().code() == Code::kNotFound && records_.NeverBegan(start.id)) {
        (void)records_.RemoveStart(start.id);  // the next launcher looks again
      }
    }
  }
}

void Holder::RemoveStaleTemporaries() const {
  for (const char* dir : {kStartsDir, kExitsDir}) {
    // An untidy folder is no reason to end.
    (void)sys::RemoveTemporariesAt(records_.run_dir(), dir, sys::Writer::kDead);
  }
}

void Holder::StartChildren() {
  if (launcher_.pid == 0 && NowMs() >= launcher_.start_at_ms) StartLauncher();
  if (logger_.pid == 0 && !logger_.adopted && NowMs() >= logger_.start_at_ms) StartLogger();
}

void Holder::StartLauncher() {
  // A launcher of ours that died leaves its socket behind; each start is a generation of its own.
  if (generation_ != 0 && launcher_.delay.WasStarted()) {
    (void)sys::RemoveFileAt(records_.run_dir(), LauncherSocketName(generation_));
  }
  Options options = options_;
  options.command = "launch";
  options.generation = ++generation_;
  auto pid = SpawnKeeper(binary_.get(), options.ToArguments());
  launcher_.delay.Started(NowMs());
  if (!pid) return ChildEnded(launcher_);
  launcher_.pid = *pid;
}

void Holder::StartLogger() {
  Options options = options_;
  options.command = "log";
  auto pid = SpawnKeeper(binary_.get(), options.ToArguments());
  logger_.delay.Started(NowMs());
  if (!pid) return ChildEnded(logger_);
  logger_.pid = *pid;
}

void Holder::ChildEnded(Child& child) {
  if (child.adopted) {
    serving_.loop().Remove(child.adopted.get());
    child.adopted.Reset();
  }
  child.pid = 0;
  child.ready = false;
  RemoveStaleTemporaries();  // what it was writing
  child.start_at_ms = child.delay.Died(NowMs());
  // Those that it alone had: the next one finds them here.
  if (&child == &logger_) RecoverLogPipes(records_, store_, EndedToo::kNo);
  StartChildren();
}

}  // namespace holdfast::runtime::keeper
