// SPDX-License-Identifier: Apache-2.0
// Kernel parameters by their path below /proc/sys ("net/ipv4/ip_forward"). Those of net/ are the
// ones of the calling thread's network namespace. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

// Without the trailing newline. kNotFound where this kernel or this namespace has none of that
// name.
Result<std::string> ReadSysctl(const std::string& name);
Result<void> WriteSysctl(const std::string& name, std::string_view value);
// Writes `least` where the value, one number, is below it. Returns whether it was.
Result<bool> RaiseSysctl(const std::string& name, uint64_t least);

// A procfs that nobody else sees, for the kernel parameters of young network namespaces: a procfs
// keeps the entries "net/ipv4" of all namespaces that were asked for through it in one chain, so
// that each path costs more the more there are. This one is replaced before there are many (not
// each time: letting one go takes the kernel longer than the chain). Not thread-safe.
class RenewedProcfs {
 public:
  // For one more namespace. Invalid where it cannot be made.
  const MountFd& Next();

 private:
  MountFd mount_;
  size_t uses_ = 0;
};

// A folder below /proc/sys ("net/ipv4/conf"), opened once. Of the namespace of the thread that
// makes it; may be used by one in another.
class SysctlDir {
 public:
  // A folder that cannot be opened is told by the first Write. With an invalid `procfs`: /proc.
  explicit SysctlDir(std::string name, const MountFd& procfs = {});
  // `name` below the folder: "eth0/rp_filter".
  Result<void> Write(const std::string& name, std::string_view value) const;

 private:
  std::string name_;
  UniqueFd dir_;
};

}  // namespace holdfast::sys
