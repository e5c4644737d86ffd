// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/snapshot/helper_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/spawn.h"
#include "runtime/image/unpack/report.h"

namespace holdfast::runtime {
namespace {

// Fixed size: the helper can neither grow it nor make its reader wait.
Result<UniqueFd> NewReport() {
  UniqueFd fd(::memfd_create("unpack-report", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Error::FromErrno(errno, "memfd_create unpack-report");
  if (::ftruncate(fd.get(), unpack::kMaxReportBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return Error::FromErrno(errno, "unpack-report");
  }
  return fd;
}

constexpr std::string_view kEndMark("\0//end\0", 7);

// The file is mostly a hole: read no further than the mark, or the first piece without content.
Result<std::string> ReadUpToEndMark(int fd) {
  std::string text;
  std::vector<char> piece(64 * 1024);
  while (text.size() < unpack::kMaxReportBytes && text.find(kEndMark) == std::string::npos) {
    const ssize_t n = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (n < 0) return Error::FromErrno(errno, "read unpack-report");
    const std::string_view part(piece.data(), static_cast<size_t>(n));
    if (part.find_first_not_of('\0') == std::string_view::npos) break;
    text.append(part);
  }
  return text;
}

Code CodeFromField(const std::string& field) {
  int value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value);
  const bool known = value >= 0 && value <= static_cast<int>(Code::kInternal);
  return known ? static_cast<Code>(value) : Code::kInternal;
}

}  // namespace

HelperProcess::HelperProcess(pid_t pid, UniqueFd report, std::string step)
    : pid_(pid), report_(std::move(report)), step_(std::move(step)) {}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      report_(std::move(other.report_)),
      step_(std::move(other.step_)) {}

HelperProcess::~HelperProcess() {
  if (pid_ <= 0) return;
  Kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<HelperProcess> HelperProcess::Start(const std::string& program,
                                           std::vector<std::string> arguments, int input,
                                           int output) {
  ASSIGN_OR_RETURN(UniqueFd report, NewReport());
  std::string step = StrCat("holdfast-unpack ", arguments.front());
  arguments.insert(arguments.begin(), program);
  char* no_environment[] = {nullptr};
  ASSIGN_OR_RETURN(const pid_t pid,
                   sys::Spawn(std::move(arguments), {input, output, report.get()}, no_environment));
  return HelperProcess(pid, std::move(report), std::move(step));
}

void HelperProcess::Kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

Result<std::vector<std::string>> HelperProcess::Wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return Error::FromErrno(errno, StrCat("wait for ", step_));
  }
  pid_ = -1;
  return ReadReport(status);
}

Result<std::vector<std::string>> HelperProcess::ReadReport(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return InvalidArgument(StrCat(step_, ": killed by signal ", signal,
                                  signal == SIGSYS ? " (a system call outside its sandbox)" : ""));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadUpToEndMark(report_.get()));
  const size_t end = text.rfind(kEndMark);
  if (end == std::string::npos) {
    return InvalidArgument(
        StrCat(step_, ": ended with status ", WEXITSTATUS(status), " and without a report"));
  }
  std::vector<std::string> fields = unpack::SplitFields(std::string_view(text).substr(0, end + 1));
  if (!fields.empty() && fields[0] == unpack::kReportOk && WEXITSTATUS(status) == 0) {
    fields.erase(fields.begin());
    return fields;
  }
  if (fields.size() < 4) return InvalidArgument(StrCat(step_, ": no usable report"));
  return Error(CodeFromField(fields[2]), fields[3]);
}

}  // namespace holdfast::runtime
