// SPDX-License-Identifier: Apache-2.0
// StateStore: the runtime's records in the run directory (drawing in paths.h). Thread-safe: the
// file system orders; a record is replaced by rename, so a reader sees an old or a new one, whole.
// Nothing is fsynced: the run directory is a tmpfs and lives as long as what it tells of.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/state/records.h"

namespace holdfast::runtime {

// Whether an id may be a file name: 1 to 128 of [A-Za-z0-9._-], not starting with a dot.
bool IsSafeName(const std::string& id);

class StateStore {
 public:
  // Makes the directories and removes half-written files. `run_dir` exists. One writing process per
  // run directory: the agent.
  static Result<StateStore> Open(const std::string& run_dir);

  Result<void> Put(const SandboxRecord& record) const;
  Result<void> Put(const ContainerRecord& record) const;
  // kNotFound when there is none; one that cannot be read is put aside and then is kNotFound too.
  Result<SandboxRecord> Sandbox(const PodUid& uid) const;
  Result<ContainerRecord> Container(const ContainerId& id) const;
  // Absent is success.
  Result<void> RemoveSandbox(const PodUid& uid) const;
  Result<void> RemoveContainer(const ContainerId& id) const;
  // All that can be read; the others are put aside.
  Result<std::vector<SandboxRecord>> Sandboxes() const;
  Result<std::vector<ContainerRecord>> Containers() const;

  // Records that were put aside, relative to `runtime/`.
  Result<std::vector<std::string>> Corrupt() const;
  Result<void> RemoveCorrupt(const std::string& name) const;

 private:
  StateStore(DirFd root, DirFd sandboxes, DirFd containers)
      : root_(std::move(root)),
        sandboxes_(std::move(sandboxes)),
        containers_(std::move(containers)) {}

  DirFd root_;
  DirFd sandboxes_;
  DirFd containers_;
};

}  // namespace holdfast::runtime
