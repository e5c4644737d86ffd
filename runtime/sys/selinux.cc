// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/selinux.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::sys {
namespace {

constexpr char kContext[] = "/sys/fs/selinux/context";
constexpr char kCurrent[] = "/proc/thread-self/attr/current";
constexpr char kFileCreation[] = "/proc/thread-self/attr/fscreate";
constexpr char kLabelAttribute[] = "security.selinux";
constexpr size_t kMaxLabel = 4096;

// Extended attributes are not to be had of an O_PATH descriptor. This magic link leads to what it is of, a link included,
// whatever lies at its path by now.
std::string PathOf(int object) { return StrCat("/proc/self/fd/", object); }

}  // namespace

bool HasSelinux() {
  if (::access(kContext, F_OK) != 0) return false;
  // Until a policy is loaded every process is "kernel".
  const auto current = ReadFileAt(AT_FDCWD, kCurrent, kMaxLabel);
  return current && current->find(':') != std::string::npos;
}

Result<void> CheckSelinuxLabel(const std::string& label) {
  auto asked = WriteControlAt(AT_FDCWD, kContext, label);
  if (asked || asked.error().sys_errno() != EINVAL) return {};
  return InvalidArgument(
      StrCat("SELinux label \"", label, "\": the policy of the node's kernel knows no such label"));
}

Result<std::string> FileLabelOf(int object) {
  std::array<char, kMaxLabel> text{};
  const ssize_t size =
      ::getxattr(PathOf(object).c_str(), kLabelAttribute, text.data(), text.size());
  if (size < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) return std::string();
  if (size < 0) return Error::FromErrno(errno, "getxattr security.selinux");
  std::string label(text.data(), static_cast<size_t>(size));
  while (label.ends_with('\0')) label.pop_back();
  return label;
}

Result<void> SetFileLabel(int object, const std::string& label) {
  if (::setxattr(PathOf(object).c_str(), kLabelAttribute, label.data(), label.size(), 0) == 0) {
    return {};
  }
  return Error::FromErrno(errno, StrCat("setxattr security.selinux ", label));
}

Result<FileCreationLabel> FileCreationLabel::Set(const std::string& label) {
  if (label.empty()) return FileCreationLabel(false);
  RETURN_IF_ERROR(WithContext(WriteControlAt(AT_FDCWD, kFileCreation, label), label));
  return FileCreationLabel(true);
}

FileCreationLabel::~FileCreationLabel() {
  // An empty line: the policy's own choice again. That cannot fail for who was allowed to set one.
  if (set_) (void)WriteControlAt(AT_FDCWD, kFileCreation, "\n");
}

}  // namespace holdfast::sys
