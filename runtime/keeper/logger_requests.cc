// SPDX-License-Identifier: Apache-2.0
// Logger: what the agent asks for.
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/logger.h"
#include "runtime/keeper/paths.h"

namespace holdfast::runtime::keeper {

void Logger::Handle(PacketServer::ConnectionId id, Message message) {
  const auto answer = [this, id](const Result<void>& done) {
    if (done) {
      server_->Reply(id, MessageType::kOk);
    } else {
      server_->Fail(id, done.error());
    }
  };
  const std::string log_id = Decoder(message.payload).Text();
  switch (message.type) {
    case MessageType::kPing:
      return server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
    case MessageType::kUpgrade:
      return HandleUpgrade(id, message);
    case MessageType::kLogRegister:
      return answer(Register(message));
    case MessageType::kLogUnregister:
      return HandleUnregister(id, log_id);
    case MessageType::kLogStatus:
      return HandleStatus(id, log_id);
    case MessageType::kLogRotate:
    case MessageType::kLogReopen: {
      Entry* entry = Find(log_id);
      if (entry == nullptr) return server_->Fail(id, NotFound(StrCat("log ", log_id)));
      if (message.type == MessageType::kLogRotate) return answer(entry->log->Rotate());
      entry->log->Reopen();
      return server_->Reply(id, MessageType::kOk);
    }
    case MessageType::kLogList: {
      std::vector<std::string> ids;
      for (const auto& [known, entry] : entries_) ids.push_back(known);
      auto list = ListToMemfd(ids);
      if (!list) return server_->Fail(id, list.error());
      return server_->Reply(id, MessageType::kOk, {}, std::vector<int>{list->get()});
    }
    default:
      if (pipes_.Serve(*server_, id, message)) return;
      server_->Fail(
          id, Unsupported(StrCat("logger: unknown message ", static_cast<int>(message.type))));
  }
}

Result<void> Logger::Register(Message& message) {
  ASSIGN_OR_RETURN(const LogRegistration what, DecodeLogRegistration(message.payload));
  if (!IsValidId(what.id)) return InvalidArgument("register log: id is not valid");
  if (!what.spec.path.starts_with('/')) {
    return InvalidArgument(StrCat("register log ", what.id, ": path is not absolute"));
  }
  if (message.fds.size() != (what.tty ? 0u : 2u)) {
    return InvalidArgument(StrCat("register log ", what.id, ": wrong number of descriptors"));
  }
  Entry* known = Find(what.id);
  if (known != nullptr && known->log->registration() == what) {
    known->log->Restart();
  } else {
    ASSIGN_OR_RETURN(auto log, ContainerLog::Open(logs_dir_.get(), what, clock_));
    log->Restart();
    // The file is there from the beginning, and a path that cannot be used is refused at once.
    auto opened = log->file().EnsureOpen();
    if (!opened) {
      if (known == nullptr) (void)ContainerLog::Remove(logs_dir_.get(), what.id);
      return std::move(opened.error());
    }
    entries_[what.id].log = std::move(log);
    unreadable_.erase(what.id);
  }
  for (size_t i = 0; i < message.fds.size(); ++i) {
    FdStore::Fds fds;
    fds.push_back(std::move(message.fds[i]));
    RETURN_IF_ERROR(
        pipes_.Put(StrCat(kLogKeyPrefix, what.id, i == 0 ? ".1" : ".2"), std::move(fds)));
  }
  return {};
}

// What is in the pipes by now is still committed, as far as the log can be written.
void Logger::HandleUnregister(PacketServer::ConnectionId id, const std::string& log_id) {
  if (!IsValidId(log_id)) return server_->Fail(id, InvalidArgument("unregister log: id not valid"));
  if (Entry* entry = Find(log_id); entry != nullptr) {
    for (LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
      entry->log->PumpAll(stream, entry->sources[static_cast<size_t>(stream)].pipe);
    }
  }
  // Also those without a log: the terminal of an exec is kept here, and nobody logs it.
  for (const std::string& key : pipes_.Keys(StrCat(kLogKeyPrefix, log_id, "."))) {
    pipes_.Drop(key);
    link_.Drop(key);
  }
  entries_.erase(log_id);
  unreadable_.erase(log_id);
  to_compress_.erase(log_id);
  if (auto removed = ContainerLog::Remove(logs_dir_.get(), log_id); !removed) {
    return server_->Fail(id, removed.error());
  }
  server_->Reply(id, MessageType::kOk);
}

void Logger::HandleStatus(PacketServer::ConnectionId id, const std::string& log_id) {
  const Entry* entry = Find(log_id);
  if (entry == nullptr) return server_->Fail(id, NotFound(StrCat("log ", log_id)));
  server_->Reply(id, MessageType::kOk, Encode(entry->log->status()));
}

void Logger::HandleUpgrade(PacketServer::ConnectionId id, Message& message) {
  auto copy = message.fds.empty() ? Result<UniqueFd>(InvalidArgument("upgrade: no binary"))
                                  : CopyBinary(message.fds[0].get());
  if (!copy) return server_->Fail(id, copy.error());
  // Tried now, while somebody can be told.
  if (auto handover = MakeHandover(); !handover) return server_->Fail(id, handover.error());
  next_binary_ = std::move(*copy);
  server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
}

}  // namespace holdfast::runtime::keeper
