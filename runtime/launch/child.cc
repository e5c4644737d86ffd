// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/child.h"

#include <atomic>

#include "runtime/launch/protocol.h"

namespace holdfast::runtime {

void Child::Warn(const std::string& text) { ReportWarning(socket_, text); }

void Child::SetBegun(bool begun) {
  if (begun_ != nullptr) std::atomic_ref<char>(*begun_).store(begun ? 1 : 0);
}

void Child::KeepOnlySocket(int socket) {
  // Not closed: their numbers are free, or somebody else's, by now.
  for (UniqueFd* fd : {&root, &terminal, &shared_memory, &procfs}) (void)fd->Release();
  (void)sysfs.Release();
  fds_ = {};
  socket_ = socket;
}

}  // namespace holdfast::runtime
