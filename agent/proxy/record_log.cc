// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/record_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr size_t kLogLimit = size_t{1} << 30;
constexpr size_t kSlack = 1000;  // dead lines that are not worth a new file

}  // namespace

Result<RecordLog> RecordLog::Open(DirFd directory, std::string name) {
  RecordLog log(std::move(directory), std::move(name));
  RETURN_IF_ERROR(log.Load());
  return log;
}

Result<void> RecordLog::Load() {
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(directory_.get(), "."));
  auto text = sys::ReadFileAt(directory_.get(), name_, kLogLimit);
  if (!text && text.error().code() == Code::kNotFound) return {};
  if (!text) return std::move(text.error());
  std::string_view rest = *text;
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
    found_.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  lines_ = found_.size();
  spoilt_ = !rest.empty();  // the beginning of a line that nobody waited for
  return {};
}

void RecordLog::Append(std::string_view line) {
  waiting_.append(line);
  waiting_.push_back('\n');
  ++lines_;
}

Result<void> RecordLog::OpenFile() {
  if (file_) return {};
  ASSIGN_OR_RETURN(file_,
                   sys::OpenAt(directory_.get(), name_, O_WRONLY | O_APPEND | O_CREAT, 0600));
  ASSIGN_OR_RETURN(const UniqueFd directory,
                   sys::OpenAt(directory_.get(), ".", O_RDONLY | O_DIRECTORY));  // not O_PATH
  if (::fsync(directory.get()) == 0) return {};
  file_.Reset();
  return Error::FromErrno(errno, StrCat("fsync directory of ", name_));
}

Result<void> RecordLog::Sync() {
  if (IsSynced()) return {};
  if (spoilt_) return Conflict(StrCat(name_, ": its end is not known"));
  RETURN_IF_ERROR(OpenFile());
  spoilt_ = true;  // until all of it is there
  RETURN_IF_ERROR(WithContext(sys::WriteAll(file_.get(), waiting_), name_));
  HOLDFAST_PAUSE_POINT("proxy.records.written");
  if (::fdatasync(file_.get()) != 0) return Error::FromErrno(errno, StrCat("fdatasync ", name_));
  HOLDFAST_PAUSE_POINT("proxy.records.synced");
  spoilt_ = false;
  waiting_.clear();
  return {};
}

bool RecordLog::IsLongFor(size_t live_lines) const {
  return spoilt_ || lines_ > 2 * live_lines + kSlack;
}

Result<void> RecordLog::Replace(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(directory_.get(), name_, text, 0600));
  HOLDFAST_PAUSE_POINT("proxy.records.replaced");
  file_.Reset();  // the former file's
  waiting_.clear();
  lines_ = lines.size();
  spoilt_ = false;
  return {};
}

}  // namespace holdfast::agent
