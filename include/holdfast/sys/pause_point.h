// SPDX-License-Identifier: Apache-2.0
// Named pause points: the places where a process has changed something and not yet recorded it, or
// the other way round. A kill test arms one and kills the process exactly there.
//
// Compiled in only with the build option HOLDFAST_PAUSE_POINTS (never in a release build). Every
// point's name is unique. Armed by two environment variables at process start: HOLDFAST_PAUSE_DIR
// names a directory <dir>, HOLDFAST_PAUSE_AT says what happens:
//
//   "name", "name:N"  who arrives there (for the N-th time) creates <dir>/<name>.<pid> and stops
//                     itself with SIGSTOP; the test waits for the file, then kills or continues it
//   "@"               the same for points armed while the process runs: who arrives while there is
//                     a file <dir>/armed/<name> renames it to <dir>/<name>.<pid> and stops
//   "?"               nobody stops; every process appends the names it passes to <dir>/passed.<pid>
#pragma once

namespace holdfast::sys {

#ifdef HOLDFAST_PAUSE_POINTS
void ReachPausePoint(const char* name);
#define HOLDFAST_PAUSE_POINT(name) ::holdfast::sys::ReachPausePoint(name)
#else
#define HOLDFAST_PAUSE_POINT(name) static_cast<void>(0)
#endif

}  // namespace holdfast::sys
