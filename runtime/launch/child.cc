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
  for (int* fd : {&root, &sysfs, &terminal, &procfs, &shared_memory}) *fd = -1;
  fds_ = {};
  socket_ = socket;
}

}  // namespace holdfast::runtime
