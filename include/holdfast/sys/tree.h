// SPDX-License-Identifier: Apache-2.0
// Verbs on whole trees that somebody else may have built to hurt us and may be changing right now.
// Stack and descriptors used do not depend on a tree's depth; links are never followed, mounts
// (bind mounts of the same file system too) never entered. Thread-safe: no state.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::sys {

struct RemoveLimits {
  // When time is over or a stop is asked for, what is left stays for another call.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
  std::stop_token stop = {};
  // Directories that are open at a time, at least 2. What lies deeper is renamed to the tree's top
  // before it is removed.
  size_t open_levels = 16;
};

// rm -r of <dir>/<name>; absent is success. Takes away the immutable and append-only flags of files
// and directories (chattr(1)) where they are in the way. Goes on after a failure: only what cannot
// be removed is left, and the error names one of it. kConflict: something is mounted on it;
// kDeadlineExceeded: a limit was reached, which only a tree that grows all the time need fear.
Result<void> RemoveTreeAt(int dir, const std::string& name, const RemoveLimits& limits);

// The same for at most `patience`; what is left then is renamed into the directory `aside`, made
// for that with mode 0700, under a name of its own. Returns "" or what was set aside where, and
// why. The error: it could be neither removed nor set aside (another file system, say).
Result<std::string> RemoveOrSetAside(
    int dir, const std::string& name, const std::string& aside,
    std::chrono::steady_clock::duration patience = std::chrono::seconds(20));

struct AsideTree {
  std::string path;
  std::string reason;  // why it is still there; "" when it was removed just now, or not tried
};

// What is in the directory `aside`; nothing when it does not exist.
std::vector<AsideTree> ListAside(const std::string& aside);

// Tries again to remove what is in `aside`, `patience` for each tree, and `aside` itself when nothing
// of it is left. Returns what was tried.
std::vector<AsideTree> RetryAside(
    const std::string& aside, const std::stop_token& stop,
    std::chrono::steady_clock::duration patience = std::chrono::seconds(60));

// Called with an O_PATH descriptor of something in a tree and its stat: nobody can exchange it.
using TreeVisitor =
    std::function<Result<void>(int object, const struct stat& st, const std::string& name)>;

// Everything below the directory `top` that is there all the time of the call, in no order, some of
// it more than once when the tree is being rearranged. What is mounted on is left out. The first
// error of `visit` ends it. kInvalidArgument for more than a million levels, kUnavailable when the
// tree was rearranged each time.
Result<void> VisitTree(int top, const TreeVisitor& visit);

}  // namespace holdfast::sys
