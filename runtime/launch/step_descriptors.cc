// SPDX-License-Identifier: Apache-2.0
// Descriptors of the launcher, gone for good and not only marked O_CLOEXEC: until execve(2) has
// looked up the command and its interpreter, /proc/self/fd/N/.. of an open directory leads to the
// node's root (CVE-2024-21626). Through a socket no path leads anywhere.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "holdfast/base/strings.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

constexpr int kFirst = 3;  // behind the streams

// What is kept gets the numbers from kFirst on, in that order.
Result<void> KeepOnly(std::span<const int> keep) {
  const int bound = kFirst + static_cast<int>(keep.size());
  std::array<int, 2> copies{};
  for (size_t i = 0; i < keep.size(); ++i) {
    // Out of the way of the numbers that are given out below.
    copies.at(i) = ::fcntl(keep[i], F_DUPFD_CLOEXEC, bound);
    if (copies.at(i) < 0) return Error::FromErrno(errno, "fcntl F_DUPFD_CLOEXEC");
  }
  for (size_t i = 0; i < keep.size(); ++i) {
    const int number = kFirst + static_cast<int>(i);
    if (::dup3(copies.at(i), number, O_CLOEXEC) < 0) {
      return Error::FromErrno(errno, StrCat("dup3 to ", number));
    }
  }
  return sys::CloseRange(static_cast<unsigned>(bound), ~0u, false);
}

}  // namespace

Result<void> CloseDescriptors(Child& child, const model::ProcessPlan&) {
  const int keep[] = {child.socket()};
  RETURN_IF_ERROR(KeepOnly(keep));
  child.KeepOnlySocket(kFirst);
  return {};
}

Result<int> CloseDescriptorsBut(Child& child, int kept) {
  const int keep[] = {child.socket(), kept};
  RETURN_IF_ERROR(KeepOnly(keep));
  child.KeepOnlySocket(kFirst);
  return kFirst + 1;
}

}  // namespace holdfast::runtime
