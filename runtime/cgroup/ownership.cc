// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/ownership.h"

#include <fcntl.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr char kMark[] = "trusted.holdfast";

bool NotPossibleHere(int err) { return err == ENOTSUP || err == EPERM || err == EACCES; }

// nullopt: not marked. The descriptor must not be O_PATH.
Result<std::optional<std::string>> ReadMark(int dir) {
  std::array<char, 4096> value{};
  const ssize_t n = ::fgetxattr(dir, kMark, value.data(), value.size());
  if (n >= 0) return std::optional<std::string>(std::string(value.data(), static_cast<size_t>(n)));
  if (errno == ENODATA) return std::optional<std::string>();
  return Error::FromErrno(errno, "fgetxattr cgroup mark");
}

Result<UniqueFd> OpenReadable(int dir, const std::string& name) {
  return sys::OpenAt(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

Error Foreign(const std::string& path, const std::string& owner) {
  return Conflict(
      StrCat("cgroup ", path, " belongs to ", owner, ": give this agent another cgroup parent"));
}

}  // namespace

Result<void> CheckNotForeign(const Cgroup& parent, const std::string& name,
                             const std::string& owner) {
  const std::string path = StrCat(parent.path, "/", name);
  for (const DirFd& dir : parent.dirs) {
    auto root = OpenReadable(dir.get(), name);
    if (!root && root.error().code() == Code::kNotFound) continue;
    if (!root) return std::move(root.error());
    auto mark = ReadMark(root->get());
    if (!mark && NotPossibleHere(mark.error().sys_errno())) continue;
    if (!mark) return std::move(mark.error()).Wrap(path);
    if (*mark && **mark != owner) return Foreign(path, StrCat("the agent of ", **mark));
    if (*mark) continue;
    Cgroup one{path, {}};
    one.dirs.emplace_back(root->Release());
    ASSIGN_OR_RETURN(const std::vector<std::string> children, ListChildren(one));
    if (!children.empty()) return Foreign(path, "somebody else (a kubelet?)");
  }
  return {};
}

Result<void> MarkAsOurs(const Cgroup& root, const std::string& owner) {
  for (const DirFd& dir : root.dirs) {
    ASSIGN_OR_RETURN(const UniqueFd readable, OpenReadable(dir.get(), "."));
    if (::fsetxattr(readable.get(), kMark, owner.data(), owner.size(), 0) == 0) continue;
    if (!NotPossibleHere(errno)) return Error::FromErrno(errno, StrCat("mark cgroup ", root.path));
  }
  return {};
}

}  // namespace holdfast::runtime
