// SPDX-License-Identifier: Apache-2.0
// The address book as releases before pods.journal kept it, so that an agent of today takes over
// the addresses of pods that run, and one of then can:
//
//   network/pods/<uid>       a PodRecord: the text of record.h
//   network/releasing/<uid>  the same of a pod that is being released
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "netproxy/podnet/record.h"

namespace holdfast::netproxy {

struct FormerRecords {
  std::vector<PodRecord> records;
  WallTime written_at;                // the newest of them
  std::vector<std::string> problems;  // what cannot be read, and why
};

// `directory`: network/. None where there are no such directories.
FormerRecords ReadFormerRecords(const DirFd& directory);
// With what is in them; absent is success.
Result<void> RemoveFormerRecords(const DirFd& directory);
Result<void> WriteFormerRecords(const DirFd& directory, const std::vector<PodRecord>& records);

}  // namespace holdfast::netproxy
