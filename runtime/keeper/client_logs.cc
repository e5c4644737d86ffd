// SPDX-License-Identifier: Apache-2.0
// KeeperClient, the calls about logs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/client.h"
#include "runtime/keeper/client_call.h"
#include "runtime/keeper/fd_store.h"
#include "runtime/keeper/messages.h"
#include "runtime/keeper/paths.h"

namespace holdfast::runtime::keeper {
namespace {

// Fewer, larger batches for the logger; memory is used only while bytes wait in the pipe.
constexpr int kPipeBytes = 256 * 1024;
constexpr std::chrono::milliseconds kDrainPoll{2};

struct PipeEnds {
  UniqueFd read_end;
  UniqueFd container_end;
  uint64_t inode = 0;
};

// The container's end is O_RDWR: with every reader dead, a write blocks instead of ending the
// container with SIGPIPE. It is re-opened through /proc, so that the read end stays read-only.
Result<PipeEnds> MakePipe(uid_t owner, gid_t group) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe2");
  PipeEnds ends;
  ends.read_end.Reset(fds[0]);
  const UniqueFd write_end(fds[1]);
  if (::fchown(write_end.get(), owner, group) != 0) {
    return Error::FromErrno(errno, StrCat("chown log pipe to ", owner));
  }
  (void)::fcntl(write_end.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller pipe works too
  ASSIGN_OR_RETURN(ends.container_end,
                   sys::OpenAt(AT_FDCWD, StrCat("/proc/self/fd/", write_end.get()), O_RDWR));
  if (::fcntl(ends.read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl log pipe O_NONBLOCK");
  }
  struct stat st{};
  if (::fstat(ends.read_end.get(), &st) != 0) return Error::FromErrno(errno, "fstat log pipe");
  ends.inode = st.st_ino;
  return ends;
}

std::string IdPayload(const ContainerId& id) { return Encoder().Text(id.value).Take(); }

Result<void> CallLogger(const std::string& run_dir, MessageType type, const ContainerId& id) {
  RETURN_IF_ERROR(CallKeeper(run_dir, Peer::kLogger, type, IdPayload(id), {}));
  return {};
}

}  // namespace

Result<LogPipes> KeeperClient::RegisterLog(const ContainerId& id, const model::LogSpec& spec,
                                           uid_t owner, gid_t group) const {
  ASSIGN_OR_RETURN(PipeEnds out, MakePipe(owner, group));
  ASSIGN_OR_RETURN(PipeEnds err, MakePipe(owner, group));
  const int ends[] = {out.read_end.get(), err.read_end.get()};
  const auto key = [&id](const char* suffix) {
    return Encoder().Text(StrCat(kLogKeyPrefix, id.value, suffix)).Take();
  };
  // The holder first: a logger that restarts in between then gets them from there. On one
  // connection, so the answer to the second is one to the first.
  const Request puts[] = {{MessageType::kPutQuiet, key(".1"), std::span(ends).first(1)},
                          {MessageType::kPut, key(".2"), std::span(ends).last(1)}};
  RETURN_IF_ERROR(CallKeeper(run_dir_, Peer::kHolder, puts));
  HOLDFAST_PAUSE_POINT("client.log-pipes-put");
  const LogRegistration registration{id.value, spec, false};
  RETURN_IF_ERROR(
      CallKeeper(run_dir_, Peer::kLogger, MessageType::kLogRegister, Encode(registration), ends));
  return LogPipes{std::move(out.container_end), std::move(err.container_end), out.inode, err.inode};
}

Result<void> KeeperClient::RegisterTtyLog(const ContainerId& id, const model::LogSpec& spec) const {
  const LogRegistration registration{id.value, spec, true};
  RETURN_IF_ERROR(
      CallKeeper(run_dir_, Peer::kLogger, MessageType::kLogRegister, Encode(registration), {}));
  return {};
}

Result<UniqueFd> KeeperClient::GetTty(const ContainerId& id) const {
  ASSIGN_OR_RETURN(std::vector<UniqueFd> fds, GetFds(StrCat(kLogKeyPrefix, id.value, ".tty")));
  if (fds.empty()) return NotFound(StrCat("pty of ", id.value));
  return std::move(fds.front());
}

Result<LogStatus> KeeperClient::GetLogStatus(const ContainerId& id) const {
  ASSIGN_OR_RETURN(const Message answer,
                   CallKeeper(run_dir_, Peer::kLogger, MessageType::kLogStatus, IdPayload(id), {}));
  return DecodeLogStatus(answer.payload);
}

Result<void> KeeperClient::WaitLogDrained(const ContainerId& id,
                                          std::chrono::milliseconds limit) const {
  const SystemClock clock;
  const BootTime deadline = clock.Boot() + limit;
  for (;;) {
    ASSIGN_OR_RETURN(const LogStatus status, GetLogStatus(id));
    if (status.drained) return {};
    if (clock.Boot() >= deadline) {
      return Error(Code::kDeadlineExceeded,
                   StrCat("log of ", id.value, ": a process still holds its pipe"));
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
}

Result<void> KeeperClient::RotateLog(const ContainerId& id) const {
  return CallLogger(run_dir_, MessageType::kLogRotate, id);
}

Result<void> KeeperClient::ReopenLog(const ContainerId& id) const {
  return CallLogger(run_dir_, MessageType::kLogReopen, id);
}

Result<void> KeeperClient::UnregisterLog(const ContainerId& id) const {
  RETURN_IF_ERROR(CallLogger(run_dir_, MessageType::kLogUnregister, id));
  const std::string prefix = Encoder().Text(StrCat(kLogKeyPrefix, id.value, ".")).Take();
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher}) {
    RETURN_IF_ERROR(CallKeeper(run_dir_, peer, MessageType::kDropPrefix, prefix, {}));
  }
  return {};
}

Result<std::vector<ContainerId>> KeeperClient::ListLogs() const {
  ASSIGN_OR_RETURN(Message list,
                   CallKeeper(run_dir_, Peer::kLogger, MessageType::kLogList, {}, {}));
  if (list.fds.empty()) return Internal("list logs: answer without a list");
  ASSIGN_OR_RETURN(std::vector<std::string> ids, ListFromMemfd(list.fds.front().get()));
  std::vector<ContainerId> out;
  for (std::string& id : ids) out.emplace_back(std::move(id));
  return out;
}

}  // namespace holdfast::runtime::keeper
