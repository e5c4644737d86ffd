// SPDX-License-Identifier: Apache-2.0
// Directories of the tree: the same in cgroup v1 and v2.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {
namespace {

constexpr mode_t kDirMode = 0755;
constexpr size_t kProcsLimit = 64u << 20;

Result<std::vector<std::string>> SubDirs(int dir) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, sys::ListDirAt(dir, "."));
  std::erase_if(names, [dir](const std::string& name) {
    struct stat st{};
    return ::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode);
  });
  return names;
}

void AppendPids(std::string_view text, std::vector<pid_t>& pids) {
  while (!text.empty()) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error == std::errc() && pid > 0) pids.push_back(pid);  // 0: not visible in our namespace
    const size_t newline = text.find('\n');
    if (newline == std::string_view::npos) break;
    text.remove_prefix(newline + 1);
  }
}

bool IsGone(const Error& error) {
  return error.sys_errno() == ENOENT || error.sys_errno() == ENODEV;
}

// Process ids of one directory; none of one that is gone.
Result<void> AppendPidsOf(int dir, std::vector<pid_t>& pids) {
  auto text = sys::ReadFileAt(dir, "cgroup.procs", kProcsLimit);
  if (text) AppendPids(*text, pids);
  if (text || IsGone(text.error())) return {};
  return std::move(text.error());
}

// Containers may nest as deep as they like: neither a stack frame nor a descriptor per level.
Result<void> CollectPids(int top, std::vector<pid_t>& pids) {
  ASSIGN_OR_RETURN(DirFd here, sys::OpenDirAt(top, "."));
  std::vector<std::vector<std::string>> left;  // children to be looked at, from `top` to `here`
  for (;;) {
    RETURN_IF_ERROR(AppendPidsOf(here.get(), pids));
    auto names = SubDirs(here.get());
    if (!names && !IsGone(names.error())) return std::move(names.error());
    left.push_back(names ? std::move(*names) : std::vector<std::string>());
    DirFd next;
    while (!next) {
      while (left.back().empty()) {
        left.pop_back();
        if (left.empty()) return {};
        ASSIGN_OR_RETURN(here, sys::OpenDirAt(here.get(), ".."));
      }
      auto child = sys::OpenDirAt(here.get(), left.back().back());
      left.back().pop_back();
      if (!child && child.error().sys_errno() != ENOENT) return std::move(child.error());
      if (child) next = std::move(*child);
    }
    here = std::move(next);
  }
}

// False: something is in it.
Result<bool> RemoveDir(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  if (errno == EBUSY || errno == ENOTEMPTY) return false;
  return Error::FromErrno(errno, StrCat("rmdir ", name));
}

// The first child of `dir` that cannot be removed as it is; nullopt: there is none any more.
Result<std::optional<std::string>> RemoveEmptyDirs(int dir) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, SubDirs(dir));
  for (std::string& name : names) {
    ASSIGN_OR_RETURN(const bool removed, RemoveDir(dir, name));
    if (!removed) return std::optional(std::move(name));
  }
  return std::nullopt;
}

// rmdir of `name` and of everything below it, leaves first, however deep. The interface files go
// with their directory. EBUSY: a process is in one of them.
Result<void> RemoveDirs(int parent, const std::string& name) {
  ASSIGN_OR_RETURN(const bool was_empty, RemoveDir(parent, name));
  if (was_empty) return {};
  std::vector<std::string> way{name};  // from `parent` to what is to be removed
  DirFd above;                         // where the last of `way` lies; none: in `parent`
  while (!way.empty()) {
    const int dir = above ? above.get() : parent;
    auto last = sys::OpenDirAt(dir, way.back());
    if (!last && last.error().sys_errno() != ENOENT) return std::move(last.error());
    std::optional<std::string> deeper;
    if (last) {
      ASSIGN_OR_RETURN(deeper, RemoveEmptyDirs(last->get()));
    }
    if (deeper) {
      way.push_back(std::move(*deeper));
      above = std::move(*last);
      continue;
    }
    ASSIGN_OR_RETURN(const bool removed, RemoveDir(dir, way.back()));
    if (!removed) return Error::FromErrno(EBUSY, StrCat("rmdir ", way.back()));
    way.pop_back();
    if (way.size() == 1) above.Reset();
    if (way.size() > 1) {
      ASSIGN_OR_RETURN(above, sys::OpenDirAt(above.get(), ".."));
    }
  }
  return {};
}

}  // namespace

Cgroup TakeGrouping(const CgroupLayout& layout, Cgroup& cgroup) {
  Cgroup grouping{cgroup.path, {}};
  for (size_t i = 0; i < cgroup.dirs.size(); ++i) {
    const bool groups =
        layout.version == CgroupVersion::kV2 || layout.hierarchies[i].Has(Controller::kPids);
    grouping.dirs.push_back(groups ? std::move(cgroup.dirs[i]) : DirFd());
  }
  return grouping;
}

Result<MadeCgroup> MakeChild(const Cgroup& parent, const std::string& name) {
  MadeCgroup made{{StrCat(parent.path, "/", name), {}}, true};
  made.cgroup.dirs.reserve(parent.dirs.size());
  for (const DirFd& dir : parent.dirs) {
    if (!dir) {
      made.cgroup.dirs.emplace_back();
      continue;
    }
    if (::mkdirat(dir.get(), name.c_str(), kDirMode) != 0) {
      if (errno != EEXIST)
        return Error::FromErrno(errno, StrCat("mkdir cgroup ", made.cgroup.path));
      made.fresh = false;
    }
    HOLDFAST_PAUSE_POINT("cgroup.made_in_one_hierarchy");
    auto child = sys::OpenDirAt(dir.get(), name);
    if (!child) return std::move(child.error()).Wrap(StrCat("cgroup ", made.cgroup.path));
    made.cgroup.dirs.push_back(std::move(*child));
  }
  return made;
}

Result<Cgroup> OpenChild(const Cgroup& parent, const std::string& name) {
  Cgroup child{StrCat(parent.path, "/", name), {}};
  for (const DirFd& dir : parent.dirs) {
    if (!dir) {
      child.dirs.emplace_back();
      continue;
    }
    auto opened = sys::OpenDirAt(dir.get(), name);
    if (!opened && opened.error().sys_errno() != ENOENT) return std::move(opened.error());
    if (!opened) break;
    child.dirs.push_back(std::move(*opened));
  }
  if (child.dirs.size() == parent.dirs.size()) return child;
  // Not in every hierarchy: in none, or a crash cut its making or its removal.
  const bool any = std::ranges::any_of(
      parent.dirs, [&](const DirFd& dir) { return dir && sys::ExistsAt(dir.get(), name); });
  if (!any) return NotFound(StrCat("cgroup ", child.path, ": does not exist"));
  ASSIGN_OR_RETURN(MadeCgroup made, MakeChild(parent, name));
  return std::move(made.cgroup);
}

Result<void> RemoveEmptyChild(const Cgroup& parent, const std::string& name) {
  for (const DirFd& dir : parent.dirs) {
    if (!dir) continue;
    RETURN_IF_ERROR(RemoveDirs(dir.get(), name));
    HOLDFAST_PAUSE_POINT("cgroup.removed_in_one_hierarchy");
  }
  return {};
}

Result<void> RemoveChild(CgroupBackend& backend, const Cgroup& parent, const std::string& name) {
  using std::chrono::milliseconds;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  milliseconds pause(1);
  for (;;) {
    auto removed = RemoveEmptyChild(parent, name);
    // EBUSY: processes are in it, or were killed and have not been reaped into the void yet.
    if (removed || removed.error().sys_errno() != EBUSY) return removed;
    if (std::chrono::steady_clock::now() >= deadline) {
      return std::move(removed.error()).Wrap(StrCat("remove cgroup ", parent.path, "/", name));
    }
    auto child = OpenChild(parent, name);
    if (child) RETURN_IF_ERROR(backend.KillAll(*child));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, milliseconds(20));
  }
}

Result<std::vector<std::string>> ListChildren(const Cgroup& cgroup) {
  std::vector<std::string> all;
  for (const DirFd& dir : cgroup.dirs) {
    if (!dir) continue;
    ASSIGN_OR_RETURN(const std::vector<std::string> names, SubDirs(dir.get()));
    all.insert(all.end(), names.begin(), names.end());
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Result<std::vector<pid_t>> Processes(const Cgroup& cgroup) {
  std::vector<pid_t> pids;
  for (const DirFd& dir : cgroup.dirs) {
    if (dir) RETURN_IF_ERROR(CollectPids(dir.get(), pids));
  }
  std::ranges::sort(pids);
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

}  // namespace holdfast::runtime
