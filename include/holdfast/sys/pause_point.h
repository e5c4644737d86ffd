// SPDX-License-Identifier: Apache-2.0
// Named pause points: the places where a process has changed something and not yet recorded it, or
// the other way round. A kill test arms one and kills the process exactly there.
//
// Compiled in only with the build option HOLDFAST_PAUSE_POINTS (never in a release build). Armed by
// the environment variable HOLDFAST_PAUSE_AT="name" or "name:N" (the N-th passage) at process
// start, and HOLDFAST_PAUSE_DIR: on arrival the process creates <dir>/<name>.<pid> and stops itself
// with SIGSTOP; the test waits for the file, then kills or continues it. Every point's name is
// unique. HOLDFAST_PAUSE_AT="?" makes every process append the names it passes to
// <dir>/passed.<pid> instead.
#pragma once

namespace holdfast::sys {

#ifdef HOLDFAST_PAUSE_POINTS
void ReachPausePoint(const char* name);
#define HOLDFAST_PAUSE_POINT(name) ::holdfast::sys::ReachPausePoint(name)
#else
#define HOLDFAST_PAUSE_POINT(name) static_cast<void>(0)
#endif

}  // namespace holdfast::sys
