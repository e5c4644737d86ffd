// SPDX-License-Identifier: Apache-2.0
#include "agent/access/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "agent/base/log_time.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::access {
namespace {

// Everything but printable ASCII is escaped byte by byte: the line stays JSON whatever a caller
// sent.
void AppendJsonString(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20 || byte >= 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(byte));
      out += escape;
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// Callers choose some of the texts; long ones would push the lines before them out of the log.
constexpr size_t kMaxFieldBytes = 512;
constexpr std::string_view kCut = "...";

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  out += StrCat(",\"", name, "\":");
  if (value.size() <= kMaxFieldBytes) return AppendJsonString(out, value);
  AppendJsonString(out, StrCat(value.substr(0, kMaxFieldBytes - kCut.size()), kCut));
}

}  // namespace

std::string_view OutcomeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kUnsupported:
      return "UNIMPLEMENTED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kConflict:
      return "ABORTED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

std::string FormatAuditLine(const AuditEntry& entry, WallTime time, uint64_t dropped) {
  std::string line = StrCat("{\"time\":\"", FormatLogTime(time), "\"");
  AppendField(line, "stage", entry.stage);
  line += StrCat(",\"id\":", entry.id);
  if (entry.user.empty()) line += StrCat(",\"uid\":", entry.uid, ",\"pid\":", entry.pid);
  AppendField(line, "user", entry.user);
  AppendField(line, "from", entry.from);
  AppendField(line, "method", entry.method);
  AppendField(line, "target", entry.target);
  AppendField(line, "targetUID", entry.target_uid);
  AppendField(line, "detail", entry.detail);
  AppendField(line, "decision", entry.stage == "refused" ? "deny" : "allow");
  AppendField(line, "outcome", entry.outcome);
  if (entry.stage == "end") line += StrCat(",\"durationMicros\":", entry.duration.count() / 1000);
  if (dropped > 0) line += StrCat(",\"dropped\":", dropped);
  line.push_back('}');
  return line;
}

AuditLog::AuditLog(const std::string& path, uint64_t max_bytes, uint32_t max_files,
                   const Clock& clock)
    : directory_(path.substr(0, path.rfind('/'))),
      name_(path.substr(path.rfind('/') + 1)),
      max_bytes_(max_bytes),
      max_files_(std::max(max_files, 2u)),
      clock_(clock) {}

uint64_t AuditLog::NextId() {
  const std::lock_guard lock(mutex_);
  return ++next_id_;
}

uint64_t AuditLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void AuditLog::Write(const AuditEntry& entry) {
  const std::lock_guard lock(mutex_);
  const std::string line =
      FormatAuditLine(entry, clock_.Wall(), dropped_ - dropped_reported_) + "\n";
  if (Append(line)) {
    dropped_reported_ = dropped_;
  } else {
    ++dropped_;
    file_.Reset();  // a disk that was full or a directory that was gone: begin anew next time
  }
}

Result<void> AuditLog::Append(const std::string& line) {
  if (file_ && size_ + line.size() > max_bytes_) RETURN_IF_ERROR(Rotate());
  if (!file_) RETURN_IF_ERROR(Open());
  RETURN_IF_ERROR(sys::WriteAll(file_.get(), line));
  size_ += line.size();
  return {};
}

Result<void> AuditLog::Open() {
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error::FromErrno(errno, "mkdir " + directory_);
  }
  ASSIGN_OR_RETURN(directory_fd_, sys::OpenDir(directory_));
  ASSIGN_OR_RETURN(file_, sys::OpenAt(directory_fd_.get(), name_,
                                      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600));
  struct stat info{};
  if (::fstat(file_.get(), &info) != 0) return Error::FromErrno(errno, "stat " + name_);
  size_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Result<void> AuditLog::Rotate() {
  file_.Reset();
  for (uint32_t i = max_files_ - 1; i > 0; --i) {
    const std::string from = i == 1 ? name_ : StrCat(name_, ".", i - 1);
    const std::string to = StrCat(name_, ".", i);
    if (::renameat(directory_fd_.get(), from.c_str(), directory_fd_.get(), to.c_str()) != 0 &&
        errno != ENOENT) {
      return Error::FromErrno(errno, StrCat("rename ", from, " to ", to));
    }
  }
  return {};
}

}  // namespace holdfast::agent::access
