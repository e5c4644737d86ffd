// SPDX-License-Identifier: Apache-2.0
// KeptSandboxes: the sandboxes that the launcher has made or was given, as second owner of their descriptors (keys.h). Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/process/fd_store.h"
#include "runtime/keeper/process/holder_link.h"
#include "runtime/launch/launch.h"

namespace holdfast::runtime::keeper {

class KeptSandboxes {
 public:
  // `own_uts`: the launcher's uts namespace. All of them outlive this.
  KeptSandboxes(FdStore& store, HolderLink& holder, const UniqueFd& own_uts)
      : store_(store), holder_(holder), own_uts_(own_uts) {}

  // All of it is here. What is left of one whose maker died before it had given all to the holder is dropped by DropRest().
  bool Has(const SandboxName& sandbox) const;
  void DropRest(const SandboxName& sandbox) { store_.DropPrefix(SandboxPrefix(sandbox)); }

  // The member is the pod's sandbox from now on, with that host name ("": the one it has); false when there is no such member,
  // or it cannot be given the name.
  bool TakeMember(const SandboxName& member, const SandboxName& pod, const std::string& hostname);
  // Keeps what was made, here and with the holder. `init` may be invalid.
  void Keep(const SandboxName& sandbox, SandboxFds made, PidFd init);

  // "net", "uts", …; the descriptors are borrowed.
  struct Parts {
    std::vector<std::string> names;
    std::vector<int> fds;
  };
  Parts PartsOf(const SandboxName& sandbox) const;

 private:
  Result<void> NameHost(const SandboxName& sandbox, const std::string& hostname) const;

  FdStore& store_;
  HolderLink& holder_;
  const UniqueFd& own_uts_;
};

}  // namespace holdfast::runtime::keeper
