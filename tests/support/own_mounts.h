// SPDX-License-Identifier: Apache-2.0
// A mount namespace of the test program's own, so that what it mounts is nobody else's and ends
// with it. With privilege, or without by way of a user namespace.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace holdfast::test {

// Once, before there are threads: initialize a static with it. False: the kernel refuses.
inline bool EnterOwnMountNamespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// What is mounted on the entries of `directory`, which need not be there.
inline void UnmountEntries(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    (void)::umount2(entry.path().c_str(), MNT_DETACH);
  }
}

}  // namespace holdfast::test
