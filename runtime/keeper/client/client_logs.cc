// SPDX-License-Identifier: Apache-2.0
// KeeperClient, the calls about logs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/client/client.h"
#include "runtime/keeper/client/client_call.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/paths.h"

namespace holdfast::runtime::keeper {
namespace {

// Fewer, larger batches for the logger; memory is used only while bytes wait in the pipe.
constexpr int kPipeBytes = 256 * 1024;
constexpr std::chrono::milliseconds kDrainPoll{2};

// The container's end is O_RDWR: with every reader dead, a write blocks instead of ending the
// container with SIGPIPE. It is re-opened through /proc, so that the read end stays read-only.
Result<LogPipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe2");
  LogPipe pipe;
  pipe.read_end.Reset(fds[0]);
  const UniqueFd write_end(fds[1]);
  (void)::fcntl(write_end.get(), F_SETPIPE_SZ, kPipeBytes);  // a smaller pipe works too
  ASSIGN_OR_RETURN(pipe.container_end, sys::Reopen(write_end.get(), O_RDWR));
  if (::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK) != 0) {
    return Error::FromErrno(errno, "fcntl log pipe O_NONBLOCK");
  }
  struct stat st{};
  if (::fstat(pipe.read_end.get(), &st) != 0) return Error::FromErrno(errno, "fstat log pipe");
  pipe.inode = st.st_ino;
  return pipe;
}

std::string IdPayload(const ContainerId& id) { return Encoder().Text(id.value).Take(); }

Result<void> CallLogger(Peers& peers, MessageType type, const ContainerId& id) {
  RETURN_IF_ERROR(CallKeeper(peers, Peer::kLogger, type, IdPayload(id), {}));
  return {};
}

}  // namespace

Result<void> LogPipes::GiveTo(uid_t owner, gid_t group) const {
  for (const UniqueFd* end : {&stdout_fd, &stderr_fd}) {
    if (::fchown(end->get(), owner, group) != 0) {
      return Error::FromErrno(errno, StrCat("chown log pipe to ", owner));
    }
  }
  return {};
}

PendingLog::PendingLog(const std::shared_ptr<Peers>& peers, std::string registration, LogPipe out,
                       LogPipe err, std::vector<Request> puts)
    : peers_(peers),
      registration_(std::move(registration)),
      out_(std::move(out)),
      err_(std::move(err)),
      holder_(peers, Peer::kHolder, std::move(puts)) {}

Result<void> PendingLog::Register() {
  // The holder first: a logger that restarts in between then gets them from there.
  RETURN_IF_ERROR(holder_.Await());
  HOLDFAST_PAUSE_POINT("client.log-pipes-put");
  logger_.emplace(
      peers_, Peer::kLogger,
      std::vector<Request>{
          {MessageType::kLogRegister, registration_, {out_.read_end.get(), err_.read_end.get()}}});
  return {};
}

LogPipes PendingLog::TakePipes() {
  return {std::move(out_.container_end), std::move(err_.container_end), out_.inode, err_.inode};
}

Result<void> PendingLog::Await() {
  if (!logger_) return {};
  RETURN_IF_ERROR(logger_->Await());
  return {};
}

Result<PendingLog> KeeperClient::BeginLog(const ContainerId& id, const model::LogSpec& spec) const {
  ASSIGN_OR_RETURN(LogPipe out, MakePipe());
  ASSIGN_OR_RETURN(LogPipe err, MakePipe());
  const auto key = [&id](LogPart part) {
    return Encoder().Text(MakeLogKey(id.value, part)).Take();
  };
  // On one connection, so the answer to the second is one to the first.
  std::vector<Request> puts{{MessageType::kPutQuiet, key(LogPart::kStdout), {out.read_end.get()}},
                            {MessageType::kPut, key(LogPart::kStderr), {err.read_end.get()}}};
  return PendingLog(peers_, Encode(LogRegistration{id.value, spec, false}), std::move(out),
                    std::move(err), std::move(puts));
}

Result<LogPipes> KeeperClient::RegisterLog(const ContainerId& id, const model::LogSpec& spec,
                                           uid_t owner, gid_t group) const {
  ASSIGN_OR_RETURN(PendingLog log, BeginLog(id, spec));
  RETURN_IF_ERROR(log.Register());
  RETURN_IF_ERROR(log.Await());
  LogPipes pipes = log.TakePipes();
  RETURN_IF_ERROR(pipes.GiveTo(owner, group));
  return pipes;
}

Result<void> KeeperClient::EnsureLog(const ContainerId& id, const model::LogSpec& spec) const {
  const auto status = GetLogStatus(id);
  if (status) return {};
  if (status.error().code() != Code::kNotFound) return status.error();
  ASSIGN_OR_RETURN(const std::vector<UniqueFd> out, GetFds(MakeLogKey(id.value, LogPart::kStdout)));
  ASSIGN_OR_RETURN(const std::vector<UniqueFd> err, GetFds(MakeLogKey(id.value, LogPart::kStderr)));
  if (out.empty() || err.empty()) return NotFound(StrCat("log pipes of ", id.value));
  const int fds[] = {out.front().get(), err.front().get()};
  RETURN_IF_ERROR(CallKeeper(*peers_, Peer::kLogger, MessageType::kLogRegister,
                             Encode(LogRegistration{id.value, spec, false}), fds));
  return {};
}

Result<void> KeeperClient::RegisterTtyLog(const ContainerId& id, const model::LogSpec& spec) const {
  const LogRegistration registration{id.value, spec, true};
  RETURN_IF_ERROR(
      CallKeeper(*peers_, Peer::kLogger, MessageType::kLogRegister, Encode(registration), {}));
  return {};
}

Result<UniqueFd> KeeperClient::GetTty(const ContainerId& id) const {
  ASSIGN_OR_RETURN(std::vector<UniqueFd> fds, GetFds(MakeLogKey(id.value, LogPart::kTerminal)));
  if (fds.empty()) return NotFound(StrCat("pty of ", id.value));
  return std::move(fds.front());
}

Result<void> KeeperClient::AttachLog(const ContainerId& id, int stdout_pipe,
                                     int stderr_pipe) const {
  std::vector<int> fds;
  for (const int fd : {stdout_pipe, stderr_pipe}) {
    if (fd >= 0) fds.push_back(fd);
  }
  const auto bits = static_cast<uint8_t>((stdout_pipe >= 0 ? 1 : 0) | (stderr_pipe >= 0 ? 2 : 0));
  const std::string payload = Encoder().Text(id.value).U8(bits).Take();
  RETURN_IF_ERROR(CallKeeper(*peers_, Peer::kLogger, MessageType::kLogAttach, payload, fds));
  return {};
}

Result<LogStatus> KeeperClient::GetLogStatus(const ContainerId& id) const {
  ASSIGN_OR_RETURN(const Message answer,
                   CallKeeper(*peers_, Peer::kLogger, MessageType::kLogStatus, IdPayload(id), {}));
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
  return CallLogger(*peers_, MessageType::kLogRotate, id);
}

Result<void> KeeperClient::UnregisterLog(const ContainerId& id) const {
  RETURN_IF_ERROR(CallLogger(*peers_, MessageType::kLogUnregister, id));
  const std::string prefix = Encoder().Text(LogPrefix(id.value)).Take();
  for (const Peer peer : {Peer::kHolder, Peer::kLauncher}) {
    RETURN_IF_ERROR(CallKeeper(*peers_, peer, MessageType::kDropPrefix, prefix, {}));
  }
  return {};
}

Result<std::vector<ContainerId>> KeeperClient::ListLogs() const {
  ASSIGN_OR_RETURN(Message list, CallKeeper(*peers_, Peer::kLogger, MessageType::kLogList, {}, {}));
  if (list.fds.empty()) return Internal("list logs: answer without a list");
  ASSIGN_OR_RETURN(std::vector<std::string> ids, ListFromMemfd(list.fds.front().get()));
  std::vector<ContainerId> out;
  for (std::string& id : ids) out.emplace_back(std::move(id));
  return out;
}

}  // namespace holdfast::runtime::keeper
