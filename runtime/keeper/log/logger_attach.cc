// SPDX-License-Identifier: Apache-2.0
// Logger: who is attached to a container's output.
#include <fcntl.h>
#include <sys/epoll.h>

#include <utility>

#include "holdfast/base/strings.h"
#include "runtime/keeper/log/logger.h"

namespace holdfast::runtime::keeper {

// A stream that has ended, or that a terminal does not have, gives its reader the end at once.
Result<void> Logger::Attach(Message& message) {
  Decoder decoder(message.payload);
  const std::string id = decoder.Text();
  const uint8_t bits = decoder.U8();
  Entry* entry = Find(id);
  if (entry == nullptr) return NotFound(StrCat("log ", id));
  size_t next = 0;
  for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
    if ((bits >> static_cast<int>(stream) & 1) == 0) continue;
    if (next == message.fds.size()) return InvalidArgument("attach: a descriptor is missing");
    UniqueFd to = std::move(message.fds[next++]);
    Source& source = entry->sources[static_cast<size_t>(stream)];
    if (source.pipe < 0 || entry->log->ended(stream)) continue;
    if (source.attached.full()) {
      return Error(Code::kResourceExhausted, StrCat("log ", id, ": 16 are attached already"));
    }
    const int flags = ::fcntl(to.get(), F_GETFL);
    (void)::fcntl(to.get(), F_SETFL, flags | O_NONBLOCK);  // (whatever it is, tee does not wait)
    RETURN_IF_ERROR(WatchReader(id, stream, to.get()));
    source.attached.Add(std::move(to));
  }
  return {};
}

Result<void> Logger::WatchReader(const std::string& log_id, LogStream stream, int reader) {
  return serving_.loop().Add(reader, 0, [this, log_id, stream, reader](uint32_t) {
    ReaderHasGone(log_id, stream, reader);
  });
}

void Logger::ReaderHasGone(const std::string& log_id, LogStream stream, int reader) {
  serving_.loop().Remove(reader);
  Entry* entry = Find(log_id);
  if (entry != nullptr) entry->sources[static_cast<size_t>(stream)].attached.Drop(reader);
}

ContainerLog::Progress Logger::Take(Entry& entry, LogStream stream, int pipe) {
  Source& source = entry.sources[static_cast<size_t>(stream)];
  if (source.attached.empty()) return entry.log->Pump(stream, pipe);
  const Attachments::Allowance allowed = source.attached.Copy(pipe);
  if (allowed.wait_for >= 0) WaitForReader(entry, stream, allowed.wait_for);
  // (At the end nothing can come that the attached would miss.)
  if (allowed.bytes == 0 && !allowed.ended) return ContainerLog::Progress::kOk;
  const uint64_t before = entry.log->TakenUpTo(stream);
  const auto progress =
      entry.log->Pump(stream, pipe, allowed.ended ? kLogBatchBytes : allowed.bytes);
  source.attached.Taken(entry.log->TakenUpTo(stream) - before);
  return progress;
}

void Logger::WaitForReader(Entry& entry, LogStream stream, int reader) {
  Source& source = entry.sources[static_cast<size_t>(stream)];
  if (source.waits_for >= 0) return;
  Watch(entry, stream, false);
  const std::string id = entry.log->registration().id;
  serving_.loop().Remove(reader);
  const auto added = serving_.loop().Add(
      reader, EPOLLOUT, [this, id, stream](uint32_t) { ReaderHasRoom(id, stream); });
  if (added) {
    source.waits_for = reader;
  } else {
    LetGo(entry,
          stream);  // no room in the kernel to wait for him: better than a container that hangs
    Watch(entry, stream, true);
  }
}

void Logger::ReaderHasRoom(const std::string& log_id, LogStream stream) {
  Entry* entry = Find(log_id);
  if (entry == nullptr) return;
  Source& source = entry->sources[static_cast<size_t>(stream)];
  const int reader = std::exchange(source.waits_for, -1);
  serving_.loop().Remove(reader);
  if (!WatchReader(log_id, stream, reader)) source.attached.Drop(reader);  // as above
  if (entry->log->blocked()) return;  // the tick watches it again
  Watch(*entry, stream, true);
  Pump(log_id, stream);
}

void Logger::LetGo(Entry& entry, LogStream stream) {
  Source& source = entry.sources[static_cast<size_t>(stream)];
  source.waits_for = -1;
  for (const UniqueFd& reader : source.attached.Release()) serving_.loop().Remove(reader.get());
}

}  // namespace holdfast::runtime::keeper
