// SPDX-License-Identifier: Apache-2.0
// A pod with one container, made by the kernel's calls alone: the namespaces of a sandbox and what is set in them,
// cgroups, writable layer, log pipes, and a child that becomes the program as runtime/launch has it. No daemon, no
// plan, no records, no error texts. Single-threaded; a failure ends the program.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/unique_fd.h"
#include "tests/bench/limit/cgroups.h"
#include "tests/bench/limit/wiring.h"

namespace holdfast::bench {

struct PodKind {
  bool network = false;  // a link, addresses and routes, beside the loopback
  bool pooled = false;   // its sandbox (and link) lies ready before it is asked for
};

class BarePods {
 public:
  // `dir`: with the image's layer in DIR/root/layer; what pods write lies in DIR/root. `cgroup_parent` as BareCgroups.
  BarePods(std::string dir, const std::string& cgroup_parent, PodKind kind);
  ~BarePods();

  struct Pod {
    std::string name;
    pid_t pid = 0;
    UniqueFd out, err;  // read ends of its log
    UniqueFd log;       // where that would be written
    UniqueFd executed;  // end of file once the program runs
  };
  // What lies ready for pod `number` (kind.pooled; else nothing). Untimed.
  void Prepare(int number);
  // Returns without waiting for the program to run.
  Pod Start(int number, const std::vector<const char*>& program);
  // Its processes must have ended, or are killed.
  void Remove(Pod pod);

 private:
  // Namespaces that a child joins; invalid: it makes its own.
  struct Sandbox {
    UniqueFd network, ipc, uts;
  };
  struct Descriptors {
    UniqueFd go, out, err;
  };
  [[noreturn]] void BecomeProgram(int number, const std::string& scratch,
                                  const BareCgroups::Pod& cgroups, const Descriptors& fds,
                                  const std::vector<const char*>& program) const;
  void EnterSandbox(int number) const;
  void WireNode(int number, pid_t pid);

  const std::string dir_;
  const PodKind kind_;
  BareCgroups cgroups_;
  std::unique_ptr<BareNode> node_;
  sys::RenewedProcfs procfs_;
  UniqueFd own_network_, own_ipc_, own_uts_;
  Sandbox ready_;
  std::vector<sock_filter> filter_;
  std::vector<std::string> throttle_paths_;
};

}  // namespace holdfast::bench
