// SPDX-License-Identifier: Apache-2.0
// Trees that could not be removed, put where they stand in nobody's way.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/ids.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/tree.h"

namespace holdfast::sys {
namespace {

constexpr mode_t kAsideMode = 0700;
constexpr size_t kStemLength = 100;  // of what names a tree, which may be as long as a name can be

RemoveLimits LimitsFor(std::chrono::steady_clock::duration patience, std::stop_token stop = {}) {
  RemoveLimits limits;
  limits.until = std::chrono::steady_clock::now() + patience;
  limits.stop = std::move(stop);
  return limits;
}

// Returns the new name.
Result<std::string> MoveInto(const std::string& aside, int dir, const std::string& name) {
  ASSIGN_OR_RETURN(const DirFd into, MakeDirs(AT_FDCWD, aside, kAsideMode));
  const std::string leaf = name.substr(name.rfind('/') + 1).substr(0, kStemLength);
  const std::string moved = StrCat(leaf, "-", NewContainerId().value.substr(0, 16));
  if (::renameat(dir, name.c_str(), into.get(), moved.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("set aside as ", aside, "/", moved));
  }
  return moved;
}

}  // namespace

Result<std::string> RemoveOrSetAside(int dir, const std::string& name, const std::string& aside,
                                     std::chrono::steady_clock::duration patience) {
  auto removed = RemoveTreeAt(dir, name, LimitsFor(patience));
  if (removed) return std::string();
  HOLDFAST_PAUSE_POINT("sys.tree.not_removed");
  const std::string& reason = removed.error().message();
  auto moved = MoveInto(aside, dir, name);
  if (!moved) return std::move(removed.error()).Wrap(moved.error().message());
  return StrCat(name, " could not be removed and was set aside as ", aside, "/", *moved, ": ",
                reason);
}

std::vector<std::string> ListAside(const std::string& aside) {
  auto names = ListDirAt(AT_FDCWD, aside);
  return names ? std::move(*names) : std::vector<std::string>();
}

std::vector<std::string> RetryAside(const std::string& aside, std::stop_token stop,
                                    std::chrono::steady_clock::duration patience) {
  std::vector<std::string> left;
  for (const std::string& name : ListAside(aside)) {
    const std::string path = StrCat(aside, "/", name);
    const auto removed = RemoveTreeAt(AT_FDCWD, path, LimitsFor(patience, stop));
    if (!removed) left.push_back(StrCat(path, ": ", removed.error().message()));
  }
  if (left.empty()) ::rmdir(aside.c_str());  // not when a tree was set aside just now
  return left;
}

}  // namespace holdfast::sys
