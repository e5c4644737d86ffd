// SPDX-License-Identifier: Apache-2.0
// The cgroups of one pod with one container, as runtime/cgroup makes them: a directory for the pod in every
// hierarchy of the machine, one for the container below it where there are limits (on v2 in the one that there is), what
// is written into them, and nothing that looks or remembers. Single-threaded; a failure ends the program.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/unique_fd.h"
#include "runtime/cgroup/layout.h"

namespace holdfast::bench {

class BareCgroups {
 public:
  // Pods lie in PARENT/limit-PID, which is made with whatever of PARENT is missing, and removed at the end.
  explicit BareCgroups(const std::string& parent);
  ~BareCgroups();
  BareCgroups(const BareCgroups&) = delete;
  BareCgroups& operator=(const BareCgroups&) = delete;

  struct Pod {
    std::vector<UniqueFd> tasks;  // directories that the container's first process enters by itself
    UniqueFd unified;             // what it is cloned into, of a cgroup2 tree; invalid without one
  };
  Pod Make(const std::string& name) const;
  // Once its processes are gone.
  void Remove(const std::string& name) const;
  // By the container's first process.
  static void Enter(const Pod& pod);
  // {name below /sys/fs/cgroup, options of mount(2)}: those that a container sees. None on v2, where all of it is one.
  struct Visible {
    std::string name;
    std::string options;
  };
  const std::vector<Visible>& visible() const { return visible_; }

 private:
  struct Hierarchy {
    std::string mount_point;
    UniqueFd top;          // PARENT/limit-PID
    bool limited = false;  // the container has a directory of its own
    bool unified = false;  // a cgroup2 tree beside them
    bool v2 = false;       // it is all there is
    bool cpu = false, pids = false, devices = false;
    std::vector<std::string> huge_page_files;  // limits, one per size
  };
  Hierarchy Open(const runtime::CgroupHierarchy& found, bool v2);
  static void Limit(const Hierarchy& hierarchy, int dir, bool is_pod);

  std::string path_;  // PARENT/limit-PID
  std::vector<Hierarchy> all_;
  std::vector<Visible> visible_;
  struct Made {
    UniqueFd above;  // by descriptor: the program leaves the mount namespace that shows it
    std::string name;
  };
  std::vector<Made> made_;  // outermost first
};

}  // namespace holdfast::bench
