// SPDX-License-Identifier: Apache-2.0
// Fetching log pipes out of the containers that write them, when whoever kept the read ends died: into the holder's store,
// where the next logger, and who registers a log, find them. The read end of a pipe is found among the descriptors of the
// container's first process and, failing that, of every other process: pidfd_getfd(2), inode compared with the start
// record's, re-opened read-only. When no process holds it, it is gone with all it held.
#pragma once

#include <string>

#include "runtime/keeper/common/records.h"
#include "runtime/keeper/process/fd_store.h"

namespace holdfast::runtime::keeper {

// Of containers that have ended: their pipes are looked for in all processes.
enum class EndedToo : bool { kNo, kYes };

// Those of all containers that `store` lacks.
void RecoverLogPipes(const Records& records, FdStore& store, EndedToo ended);
// Those of the container whose log's `key` it is; any other key is nobody's.
void RecoverLogPipe(const std::string& key, const Records& records, FdStore& store);

}  // namespace holdfast::runtime::keeper
