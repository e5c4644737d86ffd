// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/sysctl.h"

#include <fcntl.h>

#include <charconv>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/mount.h"

namespace holdfast::sys {
namespace {

constexpr size_t kNamespacesPerProcfs = 32;

std::string PathOf(const std::string& name) { return "/proc/sys/" + name; }

}  // namespace

Result<std::string> ReadSysctl(const std::string& name) {
  ASSIGN_OR_RETURN(std::string text, ReadFileAt(AT_FDCWD, PathOf(name), 4096));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<void> WriteSysctl(const std::string& name, std::string_view value) {
  return WriteControlAt(AT_FDCWD, PathOf(name), value);
}

Result<bool> RaiseSysctl(const std::string& name, uint64_t least) {
  ASSIGN_OR_RETURN(const std::string text, ReadSysctl(name));
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) {
    return Internal(StrCat(PathOf(name), ": \"", text, "\" is not a number"));
  }
  if (value >= least) return false;
  RETURN_IF_ERROR(WriteSysctl(name, std::to_string(least)));
  return true;
}

const MountFd& RenewedProcfs::Next() {
  if (uses_++ % kNamespacesPerProcfs != 0) return mount_;
  auto context = OpenFilesystem("proc");
  auto mount = context ? CreateMount(context->get(), {}) : Result<MountFd>(context.error());
  mount_ = mount ? std::move(*mount) : MountFd();
  return mount_;
}

SysctlDir::SysctlDir(std::string name, const MountFd& procfs) : name_(std::move(name)) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  if (procfs) dir_.Reset(::openat(procfs.get(), StrCat("sys/", name_).c_str(), kFlags));
  if (!dir_) dir_.Reset(::open(PathOf(name_).c_str(), kFlags));
}

Result<void> SysctlDir::Write(const std::string& name, std::string_view value) const {
  if (!dir_) return WriteSysctl(StrCat(name_, "/", name), value);
  auto written = WriteControlAt(dir_.get(), name, value);
  if (!written) return std::move(written.error()).Wrap(PathOf(name_));
  return {};
}

}  // namespace holdfast::sys
