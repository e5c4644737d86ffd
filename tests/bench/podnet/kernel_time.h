// SPDX-License-Identifier: Apache-2.0
// Processor time that a change of network namespaces costs: the system time of this process, and that of the kernel's
// workers that remove namespaces (workqueue "netns", which has no CPU of its own). What unbound workers do for others
// meanwhile is in it, and what RCU frees later in softirqs is not. Single-threaded.
#pragma once

#include <map>

namespace holdfast::bench {

class KernelTime {
 public:
  KernelTime();  // counts from here on
  double CallMilliseconds() const;
  // Once they have nothing left to do: they go on for a while after the last link is gone. After 2 s in any case.
  double WorkerMilliseconds() const;

 private:
  double WorkersSoFar() const;  // milliseconds

  std::map<int, double> workers_;  // nanoseconds per process of the kernel's
  double calls_ = 0;
};

}  // namespace holdfast::bench
