// SPDX-License-Identifier: Apache-2.0
// Logger: what the agent asks for.
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/log/logger.h"

namespace holdfast::runtime::keeper {

void Logger::Handle(PacketServer::ConnectionId id, Message message) {
  restless_ = true;
  const auto answer = [this, id](const Result<void>& done) {
    if (done) {
      serving_.server().Reply(id, MessageType::kOk);
    } else {
      serving_.server().Fail(id, done.error());
    }
  };
  const std::string log_id = Decoder(message.payload).Text();
  switch (message.type) {
    case MessageType::kLogRegister:
      return answer(Register(message));
    case MessageType::kLogUnregister:
      return HandleUnregister(id, log_id);
    case MessageType::kLogStatus:
      return HandleStatus(id, log_id);
    case MessageType::kLogAttach:
      return answer(Attach(message));
    case MessageType::kLogRotate: {
      Entry* entry = Find(log_id);
      if (entry == nullptr) return serving_.server().Fail(id, NotFound(StrCat("log ", log_id)));
      return answer(entry->log->Rotate());
    }
    case MessageType::kLogList: {
      std::vector<std::string> ids;
      for (const auto& [known, entry] : entries_) ids.push_back(known);
      auto list = ListToMemfd(ids);
      if (!list) return serving_.server().Fail(id, list.error());
      return serving_.server().Reply(id, MessageType::kOk, {}, std::vector<int>{list->get()});
    }
    default:
      serving_.server().Fail(
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
    const LogPart part = i == 0 ? LogPart::kStdout : LogPart::kStderr;
    RETURN_IF_ERROR(pipes_.Put(MakeLogKey(what.id, part), std::move(fds)));
  }
  return {};
}

// What is in the pipes by now is still committed, as far as the log can be written.
void Logger::HandleUnregister(PacketServer::ConnectionId id, const std::string& log_id) {
  if (!IsValidId(log_id))
    return serving_.server().Fail(id, InvalidArgument("unregister log: id not valid"));
  if (Entry* entry = Find(log_id); entry != nullptr) {
    for (LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
      entry->log->PumpAll(stream, entry->sources[static_cast<size_t>(stream)].pipe);
    }
  }
  if (Entry* entry = Find(log_id); entry != nullptr) {
    LetGo(*entry, LogStream::kStdout);
    LetGo(*entry, LogStream::kStderr);
  }
  // Also those without a log: the terminal of an exec is kept here, and nobody logs it.
  for (const std::string& key : pipes_.Keys(LogPrefix(log_id))) {
    pipes_.Drop(key);
    link_.Drop(key);
  }
  entries_.erase(log_id);
  unreadable_.erase(log_id);
  to_compress_.erase(log_id);
  if (auto removed = ContainerLog::Remove(logs_dir_.get(), log_id); !removed) {
    return serving_.server().Fail(id, removed.error());
  }
  serving_.server().Reply(id, MessageType::kOk);
}

void Logger::HandleStatus(PacketServer::ConnectionId id, const std::string& log_id) {
  const Entry* entry = Find(log_id);
  if (entry == nullptr) return serving_.server().Fail(id, NotFound(StrCat("log ", log_id)));
  serving_.server().Reply(id, MessageType::kOk, Encode(entry->log->status()));
}

}  // namespace holdfast::runtime::keeper
