// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/further.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Spaces, tabs, newlines and backslashes stand as \ooo.
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && IsOctal(text[i + 1]) && IsOctal(text[i + 2]) &&
        IsOctal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// As in /proc/self/cgroup: "freezer", "cpu,cpuacct", "name=systemd"; cgroup2 is "".
bool IsOf(const CgroupMount& mount, std::string_view controllers) {
  if (controllers.empty() || mount.unified) return controllers.empty() && mount.unified;
  return std::ranges::all_of(Split(controllers, ','), [&](std::string_view controller) {
    return mount.options.contains(controller);
  });
}

// The best mount first: where a node has its hierarchies, else one that shows all of it.
std::vector<CgroupMount> Candidates(const std::vector<CgroupMount>& mounts,
                                    std::string_view controllers, const std::string& cgroup_root) {
  std::vector<CgroupMount> below;
  std::vector<CgroupMount> elsewhere;
  for (const CgroupMount& mount : mounts) {
    if (!IsOf(mount, controllers)) continue;
    if (mount.mount_point.starts_with(cgroup_root + "/") || mount.mount_point == cgroup_root) {
      below.push_back(mount);
    } else if (mount.root == "/") {
      elsewhere.push_back(mount);
    }
  }
  below.insert(below.end(), elsewhere.begin(), elsewhere.end());
  return below;
}

}  // namespace

std::vector<CgroupMount> ParseCgroupMounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    // id parent device root mount-point options [field…] - type source super-options
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const std::vector<std::string_view> head = Split(line.substr(0, dash), ' ');
    const std::vector<std::string_view> tail = Split(line.substr(dash + 3), ' ');
    if (head.size() < 6 || tail.size() < 3) continue;
    if (tail[0] != "cgroup" && tail[0] != "cgroup2") continue;
    CgroupMount mount{
        std::string(head[2]), Unescape(head[3]), Unescape(head[4]), tail[0] == "cgroup2", {}};
    for (const std::string_view option : Split(tail[2], ',')) mount.options.emplace(option);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

FurtherHierarchies FindFurther(std::string_view mountinfo, std::string_view proc_cgroup,
                               const std::string& cgroup_root, const std::set<std::string>& known,
                               const std::function<std::string(const CgroupMount&)>& unusable) {
  FurtherHierarchies found;
  const std::vector<CgroupMount> mounts = ParseCgroupMounts(mountinfo);
  for (const std::string_view line : Split(proc_cgroup, '\n')) {
    // id:controllers:path
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string controllers(line.substr(first + 1, second - first - 1));
    const auto candidates = Candidates(mounts, controllers, cgroup_root);
    if (std::ranges::any_of(candidates, [&](const auto& m) { return known.contains(m.device); })) {
      continue;
    }
    std::string reason = "it is not mounted";
    for (const CgroupMount& mount : candidates) {
      reason = unusable(mount);
      if (!reason.empty()) continue;
      found.joined.push_back({mount.mount_point, {}, mount.unified});
      break;
    }
    if (reason.empty()) continue;
    found.left_out.push_back(StrCat(controllers.empty() ? "cgroup2" : controllers, ": ", reason));
  }
  return found;
}

}  // namespace holdfast::runtime
