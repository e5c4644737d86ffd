// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/netns.h"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "holdfast/sys/files.h"
#include "holdfast/sys/thread.h"

namespace holdfast::sys {
namespace {

// A thread, not a fork: the agent is multi-threaded. The thread ends inside the namespace, so that
// nothing has to find its way back.
Result<void> RunOnThread(const std::function<Result<void>()>& work) {
  Result<void> outcome;
  ASSIGN_OR_RETURN(std::thread thread, StartThread("netns", [&] { outcome = work(); }));
  thread.join();
  return outcome;
}

}  // namespace

Result<void> RunInNetworkNamespace(int netns, const std::function<Result<void>()>& work) {
  return RunOnThread([&]() -> Result<void> {
    if (::setns(netns, CLONE_NEWNET) != 0) {
      return Error::FromErrno(errno, "setns to a network namespace");
    }
    return work();
  });
}

Result<void> VisitNetworkNamespace(int netns, const NsFd& home,
                                   const std::function<Result<void>()>& work) {
  if (::setns(netns, CLONE_NEWNET) != 0) {
    return Error::FromErrno(errno, "setns to a network namespace");
  }
  auto outcome = work();
  if (::setns(home.get(), CLONE_NEWNET) != 0) std::abort();
  return outcome;
}

Result<NsFd> NewNetworkNamespace() {
  NsFd made;
  RETURN_IF_ERROR(RunOnThread([&]() -> Result<void> {
    if (::unshare(CLONE_NEWNET) != 0) return Error::FromErrno(errno, "unshare network namespace");
    ASSIGN_OR_RETURN(made, CurrentNetworkNamespace());
    return {};
  }));
  return made;
}

Result<NsFd> CurrentNetworkNamespace() {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenAt(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY));
  return NsFd(fd.Release());
}

}  // namespace holdfast::sys
