// SPDX-License-Identifier: Apache-2.0
// The cage of holdfast-unpack. Entered once, before the first untrusted byte is read; what it takes
// away cannot be had back. Single-thread; only in the helper.
//
//   kStream   inflate: no privilege, no file system at all, read and write on what is open
//   kArchive  outer tar: no privilege; may create files in its directory, which is its "/"
//   kLayer    layer: its directory is its "/"; keeps CHOWN, DAC_OVERRIDE, FOWNER, FSETID, MKNOD and
//             SETFCAP, since a layer holds files of every owner, set-user-ID bits, device nodes and
//             file capabilities. No SYS_ADMIN: overlay marks are set by the agent from the report.
//
// In all: user and group 65534, no supplementary groups, empty bounding set but for the above,
// no_new_privs, not dumpable, dies with its parent, own mount namespace with nothing but the
// directory, Landlock from ABI 2 on (below, hard links could not be made), rlimits, seccomp
// allow-list without sockets, exec, fork, ptrace, and without executable memory.
#pragma once

#include <cstdint>

#include "holdfast/base/result.h"

namespace holdfast::runtime::unpack {

enum class Cage : uint8_t { kStream, kArchive, kLayer };

// `directory` is an fd of the directory that becomes "/"; unused by kStream. Called without
// privilege (rootless), what needs it is left out: the rest still applies.
Result<void> EnterSandbox(Cage kind, int directory);

}  // namespace holdfast::runtime::unpack
