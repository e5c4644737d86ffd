// SPDX-License-Identifier: Apache-2.0
// Trees that could not be removed, put where they stand in nobody's way.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "holdfast/base/ids.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/tree.h"

namespace holdfast::sys {
namespace {

constexpr mode_t kAsideMode = 0700;
constexpr size_t kStemLength = 100;
constexpr int kMoveTries = 10;

RemoveLimits LimitsFor(std::chrono::steady_clock::duration patience, std::stop_token stop = {}) {
  RemoveLimits limits;
  limits.until = std::chrono::steady_clock::now() + patience;
  limits.stop = std::move(stop);
  return limits;
}

// The end of a path, as one name.
std::string StemOf(std::string path) {
  std::replace(path.begin(), path.end(), '/', '-');
  return path.size() <= kStemLength ? path : path.substr(path.size() - kStemLength);
}

// Returns the new name. A RetryAside beside us removes `aside` when it has emptied it, between our two
// steps too: then both are made again.
Result<std::string> MoveInto(const std::string& aside, int dir, const std::string& name) {
  const std::string moved = StrCat(StemOf(name), "-", NewContainerId().value.substr(0, 16));
  const auto move = [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const DirFd into, MakeDirs(AT_FDCWD, aside, kAsideMode));
    if (::renameat(dir, name.c_str(), into.get(), moved.c_str()) == 0) return {};
    return Error::FromErrno(errno, StrCat("set aside as ", aside, "/", moved));
  };
  Result<void> done = move();
  for (int i = 1; i < kMoveTries && !done && done.error().code() == Code::kNotFound; ++i) {
    done = move();
  }
  if (!done) return std::move(done.error());
  return moved;
}

}  // namespace

Result<std::string> RemoveOrSetAside(int dir, const std::string& name, const std::string& aside,
                                     std::chrono::steady_clock::duration patience) {
  auto removed = RemoveTreeAt(dir, name, LimitsFor(patience));
  if (removed) return std::string();
  const std::string& reason = removed.error().message();
  auto moved = MoveInto(aside, dir, name);
  if (!moved) return std::move(removed.error()).Wrap(moved.error().message());
  return StrCat(name, " could not be removed and was set aside as ", aside, "/", *moved, ": ",
                reason);
}

std::vector<AsideTree> ListAside(const std::string& aside) {
  const auto names = ListDirAt(AT_FDCWD, aside);
  if (!names) return {};
  std::vector<AsideTree> trees;
  for (const std::string& name : *names) trees.push_back({StrCat(aside, "/", name), ""});
  return trees;
}

std::vector<AsideTree> RetryAside(const std::string& aside, const std::stop_token& stop,
                                  std::chrono::steady_clock::duration patience) {
  std::vector<AsideTree> trees = ListAside(aside);
  for (AsideTree& tree : trees) {
    const auto removed = RemoveTreeAt(AT_FDCWD, tree.path, LimitsFor(patience, stop));
    if (!removed) tree.reason = removed.error().message();
  }
  // Not when something is left in it. One that was found empty may be about to get its first tree.
  if (!trees.empty()) ::rmdir(aside.c_str());
  return trees;
}

}  // namespace holdfast::sys
